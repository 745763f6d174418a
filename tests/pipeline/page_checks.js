// Put in front of a page under test: looks at what a reader would see, and posts it to the page around the frame.
"use strict";
const errors = [];
const loaded = [];
addEventListener("securitypolicyviolation", (event) => loaded.push(event.blockedURI));
addEventListener("error", (event) => errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => errors.push(String(event.reason)));
for (const level of ["error", "warn"]) console[level] = (...words) => errors.push(words.join(" "));

addEventListener("load", () => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const named = (element) => `${element.tagName}.${element.getAttribute("class") ?? ""} "${element.textContent.trim().slice(0, 40)}"`;

  const colour = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below, opacity = 1) => {
    const alpha = top[3] * opacity;
    return [0, 1, 2].map((part) => top[part] * alpha + below[part] * (1 - alpha)).concat(1);
  };
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.unshift(colour(getComputedStyle(each).backgroundColor));
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const behindText = (text) => {
    const box = text.getBoundingClientRect();
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    let below = behind(text.ownerSVGElement.parentElement);
    for (const rect of text.ownerSVGElement.querySelectorAll("rect")) {
      const place = rect.getBoundingClientRect();
      const style = getComputedStyle(rect);
      const under = place.left <= x && x <= place.right && place.top <= y && y <= place.bottom;
      if (under && rect.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)
        below = over(colour(style.fill), below, Number(style.opacity));
    }
    return below;
  };
  const luminance = (parts) => {
    const [red, green, blue] = parts.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((first, second) => second - first);
    return (high + 0.05) / (low + 0.05);
  };

  const pale = [];
  let texts = 0;
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    const inside = element instanceof SVGElement;
    if (!own || !shown(element) || ["SCRIPT", "STYLE", "title", "desc"].includes(element.tagName)) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const below = inside ? behindText(element) : behind(element);
    const ratio = contrast(over(colour(inside ? style.fill : style.color), below), below);
    if (ratio < 4.5) pale.push(`${named(element)} has ${ratio.toFixed(2)}`);
  }

  const wide = [...document.body.querySelectorAll("*")].filter((element) =>
    shown(element) && !element.closest(".scroll, nav.page ul, .skip") && element.getBoundingClientRect().right > innerWidth + 1);

  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  const figures = [...document.querySelectorAll("figure")].map((figure) => {
    const picture = figure.querySelector("svg");
    const place = picture?.getBoundingClientRect();
    return {
      shown: shown(figure),
      size: place ? [place.width, place.height] : [0, 0],
      title: picture?.querySelector(":scope > title")?.textContent ?? "",
      role: picture?.getAttribute("role") ?? "",
      caption: figure.querySelector("figcaption")?.textContent.trim() ?? "",
    };
  });

  const diagrams = [...document.querySelectorAll("svg.space-time")].filter(shown).map((picture) => {
    const rings = [...picture.querySelectorAll(".event.offending .ring")];
    const others = [...picture.querySelectorAll(".event.marked .ring, .event.concerned .dot")].map((part) => getComputedStyle(part).stroke);
    return {
      offending: rings.length,
      silence: picture.querySelectorAll(".silence").length,
      thick: rings.every((ring) => parseFloat(getComputedStyle(ring).strokeWidth) >= 3 && ring.getBBox().width > 10),
      differs: rings.every((ring) => !others.includes(getComputedStyle(ring).stroke)),
      labelled: [...picture.querySelectorAll("text.offending")].some((text) => text.textContent.startsWith("\u2717")),
    };
  });

  // What a reader can do: pick out a message with the keyboard, put a process aside and take it back.
  const picked = [...document.querySelectorAll("figure .chips li[data-m] button")].filter(shown).map((button) => {
    const figure = button.closest("figure");
    const wanted = [...figure.querySelectorAll("svg [data-m]")].filter((part) => part.dataset.m === button.parentElement.dataset.m);
    button.dispatchEvent(new FocusEvent("focus"));
    const on = [...figure.querySelectorAll("svg .on")];
    const focused = figure.classList.contains("focused");
    button.dispatchEvent(new FocusEvent("blur"));
    return wanted.length > 0 && focused && on.length === wanted.length && !figure.querySelector("svg .on") && !figure.classList.contains("focused");
  });
  const aside = [...document.querySelectorAll("figure .chips li[data-life] button")].filter(shown).map((button) => {
    const figure = button.closest("figure");
    button.click();
    const away = figure.querySelectorAll("svg .away").length;
    const pressed = button.getAttribute("aria-pressed");
    button.click();
    return away > 0 && pressed === "false" && !figure.querySelector("svg .away") && button.getAttribute("aria-pressed") === "true";
  });

  const [page, width] = window.name.split(" ");
  parent.postMessage({
    page, width: Number(width), inner: innerWidth, texts, pale, errors, loaded, figures, diagrams, picked, aside,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    overflow: document.documentElement.scrollWidth - innerWidth,
    wide: wide.slice(0, 5).map(named),
    loose: [...document.querySelectorAll('a[href^="#"]')].filter((link) => !document.getElementById(link.hash.slice(1))).map((link) => link.hash),
    twice: ids.filter((id, place) => ids.indexOf(id) !== place),
  }, "*");
});
