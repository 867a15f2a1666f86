// Keeps the page current, and sends what a person decides. Without it, the page can still be read.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const pulse = document.querySelector(".pulse");
  const notice = document.querySelector(".notice");

  const show = (state, text) => {
    if (!pulse) return;
    pulse.dataset.state = state;
    pulse.textContent = text;
  };
  const tell = (text) => {
    if (!notice) return;
    notice.hidden = !text;
    notice.textContent = text;
  };

  // Times that pass. The server writes the moment, and the page counts.
  const span = (seconds) => {
    const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
    for (const [large, name, small, smaller] of units) {
      if (seconds < large) continue;
      const rest = Math.floor((seconds % large) / small);
      const first = `${Math.floor(seconds / large)} ${name}`;
      return rest > 0 && name !== "min" ? `${first} ${rest} ${smaller}` : first;
    }
    return `${Math.floor(seconds)} s`;
  };
  const tick = () => {
    const now = Date.now();
    for (const time of document.querySelectorAll("time[data-count]")) {
      const count = time.dataset.count;
      const seconds = (now - Date.parse(time.dateTime)) / 1000;
      const passed = span(Math.max(0, count === "in" || count === "left" ? -seconds : seconds));
      const before = { for: "for ", in: "in " }[count] || "";
      const after = { ago: " ago", left: " left" }[count] || "";
      const text = before + passed + after;
      if (time.textContent !== text) time.textContent = text;
    }
  };

  const seen = new WeakMap();
  // A part is replaced only where it differs, and never while somebody types in it.
  const isBusy = (part) => part.contains(document.activeElement)
    && document.activeElement.matches("input, select, textarea");
  const replace = (fresh) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (!next || isBusy(part) || seen.get(part) === next.innerHTML) continue;
      const opened = new Set([...part.querySelectorAll("details[open][id]")].map((d) => d.id));
      const reachable = () => [...part.querySelectorAll("a, button, input, select, summary")];
      const focused = reachable().indexOf(document.activeElement);
      const typed = [...part.querySelectorAll("input[id]")].map((i) => [i.id, i.value]);
      const text = next.innerHTML;
      const bottom = part.dataset.live === "end"
        && innerHeight + scrollY >= document.body.scrollHeight - 40;
      part.replaceChildren(...[...next.childNodes].map((n) => document.adoptNode(n)));
      seen.set(part, text);
      for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
      for (const [id, value] of typed) {
        const input = document.getElementById(id);
        if (input && value) input.value = value;
      }
      if (focused >= 0) reachable()[focused]?.focus();
      if (bottom) scrollTo(0, document.body.scrollHeight);
    }
    document.title = fresh.title;
    tick();
  };

  let loading = false;
  let again = false;
  const refresh = async () => {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const response = await fetch(location.href, { cache: "no-store" });
      if (response.status === 401) {
        show("lost", "no session");
        tell("This session has ended. Run `harness web --url` to get a new link.");
        return;
      }
      if (response.ok) {
        replace(new DOMParser().parseFromString(await response.text(), "text/html"));
      }
    } catch {
      show("lost", "not connected");
    } finally {
      loading = false;
      if (again) { again = false; refresh(); }
    }
  };

  const follow = () => {
    const events = new EventSource(new URL("live", document.baseURI));
    events.onopen = () => { show("live", "live"); refresh(); };
    events.onerror = () => show("lost", "not connected");
    events.addEventListener("change", () => { tell(""); refresh(); });
    events.addEventListener("gap", () => {
      tell("Some events were missed. The page shows the current state.");
      refresh();
    });
  };

  // A form names a request of the protocol; its fields complete it.
  const send = async (form, button) => {
    const said = form.querySelector(".said");
    const request = JSON.parse(form.dataset.command);
    for (const field of form.querySelectorAll("[name]")) {
      if (field === button || field.tagName === "BUTTON") continue;
      const value = field.type === "number" ? field.valueAsNumber : field.value;
      if (value === "" || Number.isNaN(value)) continue;
      request[field.name] = value;
    }
    if (button?.name) request[button.name] = button.value;
    if (form.dataset.ask && !confirm(form.dataset.ask)) return;
    const buttons = form.querySelectorAll("button");
    buttons.forEach((b) => { b.disabled = true; });
    try {
      const response = await fetch(new URL("api/command", document.baseURI), {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Harness": "1" },
        body: JSON.stringify(request),
      });
      const answer = await response.json();
      const isDone = answer.status === "ok";
      form.dataset.done = isDone ? "ok" : "refused";
      said.textContent = isDone ? "Done." : [answer.message, ...(answer.hints || [])].join(" — ");
      if (isDone) {
        form.reset();
        document.activeElement?.blur();
      }
    } catch {
      form.dataset.done = "refused";
      said.textContent = "The server did not answer.";
    } finally {
      buttons.forEach((b) => { b.disabled = false; });
      refresh();
    }
  };
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.act")) return;
    event.preventDefault();
    send(form, event.submitter);
  });

  // Keys: / filters, j and k walk through rows, Enter opens one.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      const filter = document.querySelector("input[type=search]");
      if (filter) { event.preventDefault(); filter.focus(); }
    } else if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll("main [data-row]")];
      const at = links.indexOf(document.activeElement);
      const next = event.key === "j" ? at + 1 : Math.max(0, at - 1);
      links[Math.min(next, links.length - 1)]?.focus();
    }
  });

  for (const part of document.querySelectorAll("[data-live]")) seen.set(part, part.innerHTML);
  tick();
  setInterval(tick, 1000);
  if (document.querySelector("[data-live]")) follow();
})();
