// Starts Swagger UI: a script of its own, for the page allows no script within it.
"use strict";

const page = document.getElementById("interface");
SwaggerUIBundle({
  url: page.dataset.document,
  dom_id: "#interface",
  deepLinking: true,
  layout: "BaseLayout",
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
});
