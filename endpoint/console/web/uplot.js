// uPlot, the charts of static/charts.js, as one module.
export { default } from "uplot";
