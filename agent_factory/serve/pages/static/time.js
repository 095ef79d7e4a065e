"use strict";
// Times in the zone of the reader. The page has them in UTC, which stays as the title.
(() => {
  const two = (number) => String(number).padStart(2, "0");
  const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = (date) => [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");

  function localize() {
    const today = day(new Date());
    for (const time of document.querySelectorAll("time[data-local]:not([data-done])")) {
      const date = new Date(time.dateTime);
      time.textContent = day(date) === today ? clock(date) : `${day(date)} ${clock(date)}`;
      time.dataset.done = "";
    }
    for (const time of document.querySelectorAll("time[data-ago]:not([data-done])")) {
      const date = new Date(time.dateTime);
      time.title = `${day(date)} ${clock(date)} here, ${time.title}`;
      time.dataset.done = "";
    }
  }
  localize();
  for (const name of ["htmx:afterSwap", "htmx:oobAfterSwap"]) {
    document.body.addEventListener(name, localize);
  }
})();
