"use strict";
// The table of all cases: search, filters, order, columns and copying. Sorting, searching and
// paging are DataTables'; without any script the table is a plain one that holds all numbers.
(() => {
  const PAGE = 50; // rows at once: more are slow to lay out and are not read

  const number = (text) => (text === "" ? null : Number(text));
  const blankLast = (compare) => (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return compare(x, y);
  };

  // One field of a CSV file. A spreadsheet would run a text that begins like a formula.
  const field = (value) => {
    if (value === null) return "";
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };

  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };

  const enhance = (element) => {
    const data = JSON.parse(document.getElementById("cases-data").textContent);
    const tools = document.getElementById("cases-tools");
    const search = tools.querySelector("[name=search]");
    const chosen = [...tools.querySelectorAll("select")];
    const said = tools.querySelector("output");
    const paged = data.rows.length > PAGE;
    Object.assign(DataTable.ext.type.order, {
      "blank-last-asc": blankLast((x, y) => x - y),
      "blank-last-desc": blankLast((x, y) => y - x),
    });
    const table = new DataTable(element, {
      autoWidth: false,
      order: [],
      pageLength: PAGE,
      paging: paged,
      layout: {
        topStart: null,
        topEnd: null,
        bottomStart: paged ? "info" : null,
        bottomEnd: paged ? "paging" : null,
      },
      columnDefs: [{ targets: "number", type: "blank-last" }],
      language: { emptyTable: "no case", zeroRecords: "no case fits" },
    });
    const kept = { search: "applied", order: "applied" };
    const shownRows = () => table.rows(kept).indexes().toArray();
    const count = () => {
      const { recordsDisplay, recordsTotal } = table.page.info();
      said.value = recordsDisplay === recordsTotal ? "" : `${recordsDisplay} of ${recordsTotal}`;
    };

    table.search.fixed("chosen", (text, row, index) =>
      chosen.every((one) => {
        const [value] = data.rows[index][one.dataset.column];
        return one.value === "" || String(value) === one.value;
      }),
    );
    table.on("draw", count);
    search.addEventListener("input", () => table.search(search.value).draw());
    for (const one of chosen) one.addEventListener("change", () => table.draw());
    for (const box of tools.querySelectorAll("[type=checkbox]")) {
      box.addEventListener("change", () => table.column(box.dataset.column).visible(box.checked));
    }

    const csv = () => {
      const columns = table.columns(":visible").indexes().toArray();
      const lines = [columns.flatMap((n) => data.columns[n])];
      const values = (row, n) => data.rows[row][n] ?? [table.cell(row, n).node().textContent.trim()];
      for (const row of shownRows()) lines.push(columns.flatMap((n) => values(row, n)));
      return lines.map((line) => line.map(field).join(",") + "\n").join("");
    };
    tools.querySelector("[name=copy]").addEventListener("click", async () => {
      const rows = shownRows().length;
      said.value = (await copied(csv())) ? `${rows} rows copied` : "The browser does not let copy";
    });

    // A link to a case turns to its page, whatever is searched for.
    const place = new Map(table.rows().nodes().toArray().map((row, n) => [row.id, n]));
    const follow = () => {
      const at = place.get(location.hash.slice(1));
      if (at === undefined) return;
      if (!shownRows().includes(at)) {
        search.value = "";
        for (const one of chosen) one.value = "";
        table.search("").draw();
      }
      if (paged) table.page(Math.floor(shownRows().indexOf(at) / PAGE)).draw("page");
      const row = table.row(at).node();
      for (const other of table.rows(".here").nodes().toArray()) other.classList.remove("here");
      row.classList.add("here");
      row.scrollIntoView({ block: "center" });
    };
    addEventListener("hashchange", follow);
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (link && link.hash === location.hash) follow();
    });

    // On paper there are no pages to turn.
    addEventListener("beforeprint", () => paged && table.page.len(-1).draw());
    addEventListener("afterprint", () => paged && table.page.len(PAGE).draw());

    tools.hidden = false;
    return follow;
  };

  const element = document.getElementById("all-cases");
  try {
    const follow = element && enhance(element);
    document.documentElement.classList.remove("scripted");
    if (follow) follow();
  } finally {
    document.documentElement.classList.remove("scripted");
  }
})();
