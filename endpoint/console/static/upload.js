// The upload with a bar of how much was sent. Without this script the form is sent as any other.

export function upload(form) {
  const bar = form.querySelector("[data-progress]");
  const say = form.querySelector("[data-sent]");
  const button = form.querySelector("button");

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest(); // fetch does not say how much was sent
    const began = performance.now();
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      bar.value = total ? loaded / total : 0;
      const rate = loaded / Math.max(1, performance.now() - began) / 1000;
      say.textContent = loaded === total ? "sent; the server reads it" : `${Math.round(100 * bar.value)} %, ${rate.toFixed(1)} MB/s`;
    });
    request.addEventListener("load", () => {
      const next = request.getResponseHeader("rillet-location");
      if (next) location.assign(next);
      else show(request.responseText);
    });
    request.addEventListener("error", () => {
      say.textContent = "the server does not answer";
      button.disabled = false;
    });
    request.open("POST", form.action);
    request.setRequestHeader("rillet-script", "1");
    bar.hidden = false;
    button.disabled = true;
    request.send(new FormData(form));
  });

  // The same page, with what is wrong; the files stay chosen.
  function show(page) {
    const problem = new DOMParser().parseFromString(page, "text/html").querySelector(".notice.bad");
    form.parentElement.querySelector(".notice.bad")?.remove();
    if (problem) form.before(problem);
    say.textContent = problem ? "" : "the server sent another page";
    bar.hidden = true;
    button.disabled = false;
  }
}
