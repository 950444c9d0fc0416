for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, at) => row.cells[at].dataset.value ?? row.cells[at].textContent.trim();
  const compare = (a, b, sign) => {
    if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1; // what has no number comes last either way
    return sign * (isNaN(a) ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  };
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "Sort by " + head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const upwards = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(key(a, at), key(b, at), upwards ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}
for (const box of document.querySelectorAll(".scroll")) {
  const look = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth + 1 < box.scrollWidth);
  box.addEventListener("scroll", look, { passive: true });
  addEventListener("resize", look);
  look();
}
