// Opens each page in headless Chromium in two looks: light and narrow, and dark and wide. Each second page is light and
// wide, and dark and narrow, since colours depend on the width too. Prints as one JSON object what axe-core finds, what
// the browser complains about (a broken policy, a script's error), which pages scroll sideways, and how high each is.
// Arguments: a file with {"base", "pages", "axe", "chromium"}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const asked = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { resolve } = createRequire(pathToFileURL(`${asked.modules}/`));
const { default: puppeteer } = await import(pathToFileURL(resolve("puppeteer-core")));
const axe = readFileSync(resolve("axe-core/axe.min.js"), "utf8");
const found = { violations: [], complaints: [], sideways: [], heights: {}, shown: 0 };
const browser = await puppeteer.launch({
  executablePath: asked.chromium,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
try {
  const looks = [[["light", 390], ["dark", 1280]], [["light", 1280], ["dark", 390]]];
  for (const [number, path] of asked.pages.entries()) {
    for (const [scheme, width] of looks[number % 2]) {
      const where = `${path} ${scheme} ${width}`;
      const page = await browser.newPage();
      page.on("console", (message) => {
        if (message.type() === "error") found.complaints.push(`${where}: ${message.text()}`);
      });
      page.on("pageerror", (error) => found.complaints.push(`${where}: ${error}`));
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.setViewport({ width, height: 900 });
      await page.goto(asked.base + path, { waitUntil: "domcontentloaded" });
      // Through the protocol, which the page's policy does not bind.
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document));
      for (const each of violations) found.violations.push(`${where}: ${each.id} ${each.nodes[0].html}`);
      const beyond = await page.evaluate(() => {
        const all = document.documentElement;
        return all.scrollWidth - all.clientWidth;
      });
      found.heights[where] = await page.evaluate(() => document.documentElement.scrollHeight);
      if (beyond > 0) found.sideways.push(`${where}: ${beyond}`);
      found.shown += 1;
      await page.close();
    }
  }
  if (asked.follow) {
    const page = await browser.newPage();
    await page.goto(asked.base + asked.follow, { waitUntil: "domcontentloaded" });
    await page.click("#follow");
    const first = "#messages tbody tr:first-child th";
    const before = await page.$eval(first, (cell) => cell.textContent);
    console.error("following");
    await page.waitForFunction(
      (selector, text) => document.querySelector(selector).textContent !== text, {}, first, before);
    found.followed = await page.$eval("#messages tbody tr:first-child", (row) => row.textContent);
  }
  if (asked.search) {
    const page = await browser.newPage();
    await page.goto(asked.base + asked.search, { waitUntil: "domcontentloaded" });
    await page.waitForFunction(() => document.querySelector("#search [role=status]"));
    await page.waitForFunction(() => !document.querySelector("#search progress"));
    found.searched = await page.$eval("#search", (note) => note.textContent);
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
