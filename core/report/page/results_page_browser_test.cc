// Tests the page of results in headless Chromium. Skipped if there is none.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "core/report/page/results_page.h"
#include "core/report/testing/synthetic_trace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using nlohmann::json;

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output.append(buffer, count);
  }
  pclose(pipe);
  return output;
}

std::string Browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const std::string path = OutputOf(absl::StrCat("command -v ", name));
    if (!path.empty()) return path.substr(0, path.find('\n'));
  }
  return "";
}

// Runs in the page: acts like a reader, and reports the outcome.
constexpr char kReader[] = R"js(<script>
const later = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const unfold = () => document.querySelectorAll("details").forEach(fold => { fold.open = true; });
// Of pictures that do not scroll and of names in HTML: what runs over the edge of its place.
function cutTexts() {
  const cut = [];
  for (const text of document.querySelectorAll("svg text")) {
    if (text.closest(".tl")) continue;
    let picture = text.ownerSVGElement;
    while (picture.ownerSVGElement) picture = picture.ownerSVGElement;
    const box = text.getBoundingClientRect(), room = picture.getBoundingClientRect();
    if (box.left < room.left - 1 || box.right > room.right + 1) cut.push(text.textContent);
  }
  for (const name of document.querySelectorAll("h2, h3, .rows span, .rows b, .legend li, .tile *")) {
    const room = name.closest("section, .tile").getBoundingClientRect();
    if (name.getBoundingClientRect().right > room.right) cut.push(name.textContent);
  }
  return cut;
}
(async () => {
  await later(200);
  const report = { errors: window.pageErrors, width: innerWidth,
    overflow: document.documentElement.scrollWidth - innerWidth,
    background: getComputedStyle(document.body).backgroundColor,
    text: getComputedStyle(document.body).color,
    requests: performance.getEntriesByType("resource").length,
    sections: document.querySelectorAll("section").length,
    bars: document.querySelectorAll(".throughput .bar").length,
    figuresBefore: document.querySelectorAll(".figure").length };
  unfold();
  await later(500);  // for unpacking
  unfold();
  await later(200);  // for the boxes' names
  const figure = document.querySelector(".figure");
  const lanes = figure.querySelector(".lanes");
  // What a reader cannot see without scrolling sideways.
  report.hidden = [];
  for (const cell of document.querySelectorAll(".wide td, .tl .lanes text")) {
    const box = cell.getBoundingClientRect();
    if (!box.width) continue;
    const place = cell.closest("section").getBoundingClientRect();
    if (box.right > place.right + 1 || box.left < place.left - 1) report.hidden.push(cell.textContent);
  }
  const before = lanes.getBoundingClientRect().width;
  const marks = () => lanes.querySelectorAll(".axis text").length;
  const marksBefore = marks();
  figure.querySelector("[data-do=in]").click();
  figure.querySelector("[data-do=in]").click();
  figure.querySelector(".e").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await later(200);
  report.figures = document.querySelectorAll(".figure").length;
  report.zoom = lanes.getBoundingClientRect().width / before;
  report.told = figure.querySelector(".info").textContent;
  report.openOverflow = document.documentElement.scrollWidth - innerWidth;
  report.cut = cutTexts();
  // Numbers that take several lines: a ratio and its interval, or the interval's ends, may take two.
  report.wrapped = [];
  for (const cell of document.querySelectorAll(".wide td.n")) {
    const spans = [...cell.querySelectorAll("span")];
    if (spans.length < 1 || spans.length > 2 || spans.some(
        span => span.getClientRects().length > 1)) report.wrapped.push(cell.textContent);
  }
  // Names of strategies that break within a word.
  for (const cell of document.querySelectorAll(".wide td:first-child")) {
    const name = document.createRange();
    name.selectNode(cell.firstChild);
    const isShort = cell.firstChild.textContent.trim().length <= 17;
    if (isShort && name.getClientRects().length > 1) report.wrapped.push(cell.textContent);
  }
  // Bars and tables of a case show the same numbers.
  report.disagree = [];
  for (const bars of document.querySelectorAll(".throughput")) {
    const rows = [...bars.closest("section").querySelectorAll(".wide")][0].querySelectorAll("tr + tr");
    const shown = [...bars.children].map(row => {
      const [speed, ratio] = row.querySelector("b").textContent.split(" · ");
      return [row.querySelector("span").firstChild.textContent.trim(), speed.replace(" img/s", ""),
              ratio.replace(" × data_parallel", ""), row.classList.value].join("; ");
    });
    const told = [...rows].map(row => {
      const cell = name => row.querySelector(`[data-h="${name}"]`).textContent;
      return [row.firstChild.firstChild.textContent.trim(), cell("img/s"), cell("vs data par."),
              row.classList.value].join("; ");
    });
    if (shown.join() !== told.join()) report.disagree.push(shown, told);
  }
  report.marked = [...document.querySelectorAll(".throughput em, .wide em")].map(e => e.textContent);
  // All timelines of a case zoom together; marks on the axis become denser.
  const all = [...figure.closest(".compare").querySelectorAll(".lanes")].map(
      e => e.getBoundingClientRect().width).filter(width => width > 0);
  report.zoomSpread = Math.max(...all) / Math.min(...all);
  report.marks = marks() / marksBefore;
  report.axes = new Set([...figure.closest(".compare").querySelectorAll(".axis")].map(
      e => e.dataset.ms)).size;
  report.numbersAlone = [...document.querySelectorAll(".lanes .e text")].filter(
      e => /^[0-9]+$/.test(e.textContent)).length;
  report.guideFirst = !!(document.querySelector(".guide").compareDocumentPosition(figure) & 4);
  const key = name => figure.querySelector(".scroll").dispatchEvent(
      new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const says = [];
  for (const name of ["ArrowRight", "ArrowRight", "ArrowDown"]) {
    key(name);
    says.push(figure.querySelector(".info").textContent);
  }
  report.keys = new Set(says).size;
  key("0");
  await later(100);
  report.zoomByKey = lanes.getBoundingClientRect().width / before;
  report.namesShare = Math.max(...[...document.querySelectorAll(".wide td:first-child")].map(
      e => e.getBoundingClientRect().width)) / innerWidth;
  report.paths = document.querySelectorAll(".crit").length;
  report.fonts = Math.min(...[...document.querySelectorAll("td, p, li")].map(
      e => parseFloat(getComputedStyle(e).fontSize)));
  parent.postMessage(report, "*");
})();
</script></body>)js";

constexpr char kWatch[] = R"js(<head><script>
window.pageErrors = [];
window.addEventListener("error", event => window.pageErrors.push(event.message));
</script>)js";

constexpr char kLongName[] = "schedule=interleaved,frozen=fill,partial_batch=false,recompute=all";

class ResultsPageBrowserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = Browser();
    if (browser_.empty()) {
      GTEST_SKIP() << "there is no Chromium here: apt-get install chromium";
    }
    folder_ = ::testing::TempDir() + "/page";
    std::filesystem::create_directories(folder_);
    const std::string page =
        absl::StrReplaceAll(Page(), {{"<head>", kWatch}, {"</body>", kReader}});
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/page.html", page).ok());
  }

  static std::string Page() {
    Results results;
    std::vector<Trace> drawn;  // which `traces` point into
    std::vector<std::vector<StrategyTraces>> traces;
    drawn.reserve(16);
    results.set_benchmark("browser");
    for (const int devices : {2, 4}) {
      CaseResult& one = *results.add_cases();
      one.set_model("a_model_with_a_rather_long_name_512");
      one.set_backend("cpu");
      one.set_num_devices(devices);
      one.set_global_batch(1);
      one.set_command_line("bazel run //bench:suite -- --suite=browser --out=/a/long/path");
      std::vector<StrategyTraces>& of_case = traces.emplace_back();
      for (const std::string strategy : {"data_parallel", "1f1b", kLongName, "offline_cache"}) {
        StrategyResult& result = *one.add_strategies();
        result.set_strategy(strategy);
        for (const double speed : {100, 101, 102, 70}) result.add_images_per_second(speed);
        result.add_step_ms(10);
        result.set_step_ms_predicted(11);
        result.set_bubble_ratio_measured(0.1);
        result.add_peak_memory_bytes(100 << 20);
        result.add_peak_memory_bytes_predicted(90 << 20);
        result.mutable_loss_check()->set_num_steps(8);
        result.mutable_loss_check()->set_max_relative_difference(1.5e-7);
        result.add_losses(0.4321);
        result.mutable_plan()->set_num_stages(2);
        result.mutable_plan()->set_num_micro_batches(4);
        result.mutable_plan()->set_micro_batch_size(8);
        result.set_step_ms_bound(9);
        if (strategy == "offline_cache") result.mutable_storage()->set_disk_bytes(1 << 20);
        (*result.mutable_idle_by_reason())["steady"] = 0.1;
        const std::string name = strategy == kLongName         ? "diffusionpipe"
                                 : strategy == "offline_cache" ? "data_parallel"
                                                               : strategy;
        drawn.push_back(MakeSyntheticTrace({name, devices, 4, 5, 0.05, 1}));
        drawn.push_back(MakeSyntheticTrace({name, devices, 4, 4, 0, 1}));
        of_case.push_back({strategy, &drawn[drawn.size() - 2], &drawn.back()});
      }
    }
    const auto page = ResultsPage(results, traces);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *page : "";
  }

  // Returns the reader's report on the page in a frame of this width.
  json Read(int width, const std::string& flags) {
    const std::string frame = absl::StrCat(
        "<!DOCTYPE html><html><body><iframe src=\"page.html\" width=\"", width,
        "\" height=\"800\"></iframe><pre id=\"out\">{}</pre><script>",
        "addEventListener('message', event => { document.getElementById('out').textContent = ",
        "JSON.stringify(event.data); })</script></body></html>");
    EXPECT_TRUE(WriteFileAtomically(folder_ + "/frame.html", frame).ok());
    const std::string dom =
        OutputOf(absl::StrCat("HOME='", folder_, "' timeout 100 '", browser_,
                              "' --headless --no-sandbox --disable-gpu --user-data-dir='", folder_,
                              "/profile' --virtual-time-budget=5000 --window-size=1400,900 ", flags,
                              " --dump-dom 'file://", folder_, "/frame.html' 2>/dev/null"));
    const size_t begin = dom.find("<pre id=\"out\">"), end = dom.find("</pre>");
    if (begin == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << "the browser said: " << dom.substr(0, 400);
      return json::object();
    }
    const std::string text =
        absl::StrReplaceAll(dom.substr(begin + 14, end - begin - 14), {{"&amp;", "&"}});
    return json::parse(text, nullptr, /*allow_exceptions=*/false);
  }

  std::string browser_, folder_;
};

void ExpectGoodPage(const json& said) {
  ASSERT_TRUE(said.contains("zoom")) << said.dump();
  EXPECT_EQ(said["errors"], json::array());
  EXPECT_EQ(said["requests"], 0) << "it must be all there is";
  EXPECT_LE(said["overflow"], 0) << "it must not scroll sideways";
  EXPECT_LE(said["openOverflow"], 0) << "nor with everything unfolded";
  EXPECT_EQ(said["cut"], json::array()) << "names wrap";
  EXPECT_EQ(said["disagree"], json::array());
  EXPECT_EQ(said["wrapped"], json::array()) << "numbers and names do not break";
  EXPECT_EQ(said["hidden"], json::array());
  EXPECT_EQ(said["marked"], json::parse(R"(["fastest", "upper reference, not comparable", "fastest",
                            "upper reference, not comparable", "fastest",
                            "upper reference, not comparable", "fastest",
                            "upper reference, not comparable"])"));
  EXPECT_LE(said["zoomSpread"], 1.01) << "timelines of a case zoom together";
  EXPECT_GT(said["marks"], 1) << "zooming in brings marks";
  EXPECT_EQ(said["axes"], 1) << "one time axis";
  EXPECT_EQ(said["numbersAlone"], 0);
  EXPECT_EQ(said["guideFirst"], true);
  EXPECT_EQ(said["keys"], 3);
  EXPECT_NEAR(said["zoomByKey"].get<double>(), 1, 0.01);
  EXPECT_EQ(said["bars"], 8);
  EXPECT_EQ(said["figuresBefore"], 0) << "packed";
  EXPECT_EQ(said["figures"], 16) << "of two cases, four strategies, measured and predicted";
  EXPECT_GT(said["zoom"], 1.3);
  EXPECT_NE(said["told"], "") << "a tapped box says what it is";
  EXPECT_GE(said["fonts"], 12) << "pixels: readable";
}

TEST_F(ResultsPageBrowserTest, WorksOnALargeScreenInLight) {
  const json said = Read(1200, "--blink-settings=preferredColorScheme=1");
  ExpectGoodPage(said);
  EXPECT_EQ(said["background"], "rgb(243, 244, 247)");
  EXPECT_LE(said["namesShare"], 0.5) << "names leave room for numbers";
}

TEST_F(ResultsPageBrowserTest, WorksInANarrowWindow) {
  const json said = Read(500, "--blink-settings=preferredColorScheme=1");
  ExpectGoodPage(said);
  EXPECT_EQ(said["width"], 500);
}

TEST_F(ResultsPageBrowserTest, WorksOnAPhone) {
  const json said = Read(360, "--blink-settings=preferredColorScheme=1");
  ExpectGoodPage(said);
  EXPECT_EQ(said["width"], 360);
}

// The rules for paper, applied to a frame as wide as A4 between its margins, 186 mm. Paper has
// smaller letters.
TEST_F(ResultsPageBrowserTest, PaperShowsEveryColumn) {
  const auto page = ReadFile(folder_ + "/page.html");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/page.html",
                                  absl::StrReplaceAll(*page, {{"@media print", "@media all"}}))
                  .ok());
  const json said = Read(703, "--blink-settings=preferredColorScheme=1");
  ASSERT_TRUE(said.contains("hidden")) << said.dump();
  EXPECT_EQ(said["hidden"], json::array());
  EXPECT_EQ(said["wrapped"], json::array());
  EXPECT_EQ(said["errors"], json::array());
  EXPECT_LE(said["openOverflow"], 0);
  EXPECT_EQ(said["background"], "rgb(255, 255, 255)");
}

TEST_F(ResultsPageBrowserTest, FollowsADarkSystem) {
  const json said = Read(360, "--blink-settings=preferredColorScheme=0");
  ExpectGoodPage(said);
  EXPECT_EQ(said["background"], "rgb(12, 14, 18)");
}

}  // namespace
}  // namespace dpipe::report
