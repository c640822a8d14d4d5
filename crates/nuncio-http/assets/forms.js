// Enhances plain pages and forms: times in the reader's time zone, and forms that are sent once.

/**
 * Shows every `<time>` below an element in the reader's language and time zone; the server's text becomes the title. A
 * choice of a list cannot contain a `<time>`: its `data-time` replaces `{time}` in its `data-text`.
 */
export function localTimes(root = document) {
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    time.title = time.textContent;
    time.textContent = format.format(new Date(time.dateTime));
  }
  for (const option of root.querySelectorAll("option[data-time]")) {
    option.textContent = option.dataset.text.replace("{time}", format.format(new Date(option.dataset.time)));
  }
}

/** A form is sent once, however often its button is pressed. */
export function sendOnce() {
  for (const form of document.forms) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
  }
  // A page restored from the browser's cache can be sent again.
  addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });
}
