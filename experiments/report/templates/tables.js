// Tables that sort by a column, and the search over the matrix. Without it the pages read the same.
"use strict";

const shownText = (cell) => cell.textContent.trim();

const rank = (cell) => {
  const given = cell.dataset.rank ?? shownText(cell);
  const number = given === "" ? NaN : Number(given);
  return Number.isNaN(number) ? given.toLowerCase() : number;
};

const collator = new Intl.Collator("en", { numeric: true });

function order(a, b) {
  const numbers = typeof a === "number" && typeof b === "number";
  if (numbers) return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return collator.compare(a, b);
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [rank(row.cells[column]), row]);
      rows.sort(([a], [b]) => (down ? order(b, a) : order(a, b)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}

function searchable(form) {
  const rows = [...document.getElementById(form.dataset.filters).tBodies[0].rows];
  const words = form.querySelector("input");
  const outcome = form.querySelector("select");
  const count = form.querySelector("[data-count]");
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const found = [...row.querySelectorAll(".outcome")].map((cell) => cell.className.split(" ")[1]);
      row.hidden = !(wanted.every((word) => text.includes(word)) && (!outcome.value || found.includes(outcome.value)));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} statements`;
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  words.addEventListener("input", show);
  outcome.addEventListener("change", show);
  form.hidden = false;
  show();
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll("form[data-filters]").forEach(searchable);
