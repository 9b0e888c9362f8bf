"""What the pages use of others, CodeMirror and uPlot, made into one script each: `python -m endpoint.console.web`.

`package-lock.json` names every package with its version and checksum; none of their install scripts is run. The result
is `static/libraries`, with the licences of what is in it. Without it the pages have a plain editor and no charts.
The scripts of our own pages are not bundled: they are the modules in `static`, as they were written."""
