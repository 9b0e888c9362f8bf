"""What tests are made of: servers, doubles, generators."""
