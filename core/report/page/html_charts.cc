#include "core/report/page/html_charts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/markup.h"
#include "core/report/palette.h"
#include "core/report/results/results.h"
#include "core/report/text_width.h"

namespace dpipe::report {
namespace {

constexpr int kBarPx = 16;

// In the order in which idle time appears in a step; index k has class "why" + k.
constexpr const char* kReasons[] = {"warm-up", "steady", "cool-down", "gradient sync", "optimizer"};

// The axis of throughputs.
struct ThroughputScale {
  double full = 0;       // images per second at the right edge
  double reference = 0;  // at the dashed line; 0: no line

  std::string Percent(double value) const {
    return NumberText(100 * std::min(1.0, value / full)) + "%";
  }
};

// Draws the dots of all turns, and the median's interval over the bar's end.
std::string TurnDots(const StrategyAnalysis& strategy, int warm_up_turns,
                     const ThroughputScale& scale) {
  const int y = kBarPx / 2;
  const StrategyResult& result = *strategy.result;
  std::string svg;
  for (int i = 0; i < result.images_per_second_size(); ++i) {
    const bool outlier = strategy.outliers[i];
    const bool warm_up = i < warm_up_turns;
    const double speed = result.images_per_second(i);
    absl::StrAppend(&svg, "<circle class=\"sample", outlier ? " outlier" : "",
                    warm_up ? " warm-up" : "", "\" cx=\"", scale.Percent(speed), "\" cy=\"", y,
                    "\" r=\"", outlier ? "3.5" : "2.5", "\"><title>turn ", i + 1, ": ",
                    NumberText(speed), " img/s", outlier ? ", an outlier" : "",
                    warm_up ? ", warm-up" : "", "</title></circle>");
  }
  const Interval& interval = strategy.images_per_second;
  if (std::isnan(interval.low) || interval.low == interval.high) return svg;
  const std::string low = scale.Percent(interval.low), high = scale.Percent(interval.high);
  absl::StrAppend(&svg, "<g class=\"whisker\"><line x1=\"", low, "\" x2=\"", high, "\" y1=\"", y,
                  "\" y2=\"", y, "\"/>");
  for (const std::string& end : {low, high}) {
    absl::StrAppend(&svg, "<line x1=\"", end, "\" x2=\"", end, "\" y1=\"", y - 5, "\" y2=\"", y + 5,
                    "\"/>");
  }
  return svg + "</g>";
}

std::string ThroughputRow(const StrategyAnalysis& strategy, int warm_up_turns,
                          const ThroughputScale& scale, const RowMark& mark) {
  const std::string& name = strategy.result->strategy();
  std::string value = "invalid";
  if (strategy.result->invalid().empty()) {
    value = EstimateText(strategy.images_per_second) + " img/s";
    const Interval& ratio = strategy.vs_data_parallel;
    if (!std::isnan(ratio.estimate)) {
      absl::StrAppend(&value, " · ", RatioWithBoundsText(ratio), " × data_parallel");
    }
  }
  const double speed = strategy.images_per_second.estimate;
  std::string drawing = absl::StrCat("<rect class=\"bar ", mark.css_class, "\" width=\"",
                                     scale.Percent(std::isnan(speed) ? 0 : speed), "\" height=\"",
                                     kBarPx, "\" rx=\"3\"><title>", EscapeMarkup(name), ": ", value,
                                     "</title></rect>", TurnDots(strategy, warm_up_turns, scale));
  if (scale.reference > 0) {
    const std::string x = scale.Percent(scale.reference);
    absl::StrAppend(&drawing, "<line class=\"ref\" x1=\"", x, "\" x2=\"", x, "\" y1=\"0\" y2=\"",
                    kBarPx, "\"/>");
  }
  return ChartRowHtml(name, value, kBarPx, drawing, mark);
}

// The axes of a plot of losses.
struct LossScale {
  size_t num_steps = 0;  // 0: nothing to plot
  double low = INFINITY;
  double high = -INFINITY;
  double tick = 0;

  double PercentFromTop(double loss) const { return 100 * (high - loss) / (high - low); }
  double PercentFromLeft(size_t step) const {
    return num_steps > 1 ? 100.0 * static_cast<double>(step) / static_cast<double>(num_steps - 1)
                         : 50;
  }
};

LossScale ScaleOf(const std::vector<LossGroup>& groups) {
  LossScale scale;
  size_t num_steps = 0;
  for (const LossGroup& group : groups) {
    num_steps = std::max(num_steps, group.losses.size());
    for (double loss : group.losses) {
      if (!std::isfinite(loss)) continue;
      scale.low = std::min(scale.low, loss);
      scale.high = std::max(scale.high, loss);
    }
  }
  if (!std::isfinite(scale.low)) return scale;
  scale.num_steps = num_steps;
  scale.tick = NiceTick(std::max(scale.high - scale.low, 1e-9), 5);
  scale.low = std::floor(scale.low / scale.tick) * scale.tick;
  scale.high = std::max(scale.low + scale.tick, std::ceil(scale.high / scale.tick) * scale.tick);
  return scale;
}

// Later curves are dashed, so that a curve beneath another is visible.
std::string LossCurve(const std::vector<double>& losses, int number, const LossScale& scale) {
  std::string svg = absl::StrCat("<polyline class=\"curve q", number % kNumSeriesColors, "\"",
                                 number > 0 ? " stroke-dasharray=\"6 5\"" : "", " points=\"");
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!std::isfinite(losses[i])) continue;
    absl::StrAppend(&svg, NumberText(scale.PercentFromLeft(i)), ",",
                    NumberText(scale.PercentFromTop(losses[i])), " ");
  }
  return svg + "\"/>\n";
}

// One bar of segments from left to right.
class DeviceBar {
 public:
  static constexpr int kHeight = 20;

  DeviceBar(const std::string& id_prefix, double step_ns)
      : id_prefix_(id_prefix), step_ns_(step_ns) {}

  // Adds a segment; shares below 0.0005 are left out.
  void Add(const std::string& css_class, const std::string& name, double time_ns) {
    // Assumes a small screen until the page's script adapts names to the real width.
    constexpr double kNominalPx = 620, kCharacterPx = 6.4;
    const double share = time_ns / step_ns_;
    if (share < 0.0005) return;
    const std::string text = absl::StrCat(name, " ", PercentText(share));
    const std::string hatch =
        css_class == "bub" ? absl::StrCat(" fill=\"url(#", id_prefix_, "-hatch)\"") : "";
    absl::StrAppend(&svg_, "<g class=\"e\" data-t=\"", text, "|", PercentText(share), "\"><title>",
                    text, " of a step, ", ShortDuration(time_ns), "</title><rect class=\"",
                    css_class, "\"", hatch, " x=\"", NumberText(100 * x_), "%\" width=\"",
                    NumberText(100 * share), "%\" height=\"", kHeight, "\"/>");
    if (kCharacterPx * DisplayWidth(text) + 4 < share * kNominalPx) {
      absl::StrAppend(&svg_, "<text class=\"t", css_class, "\" x=\"",
                      NumberText(100 * (x_ + share / 2)), "%\" y=\"14\">", text, "</text>");
    }
    svg_ += "</g>";
    x_ += share;
  }

  const std::string& svg() const { return svg_; }

 private:
  const std::string& id_prefix_;
  const double step_ns_;
  double x_ = 0;  // in [0, 1]
  std::string svg_;
};

// Numbers do not break. "1.03 [0.99, 1.08]" may take two lines, and so may an interval alone.
std::string NumberHtml(const std::string& text) {
  size_t end = text.find(" [");
  if (end == std::string::npos && text[0] == '[') end = text.find(' ');
  if (end == std::string::npos) return absl::StrCat("<span>", EscapeMarkup(text), "</span>");
  return absl::StrCat("<span>", EscapeMarkup(text.substr(0, end)), "</span> <span>",
                      EscapeMarkup(text.substr(end + 1)), "</span>");
}

}  // namespace

RowMark MarkOf(const CaseAnalysis& analysis, const StrategyResult& result) {
  if (IsUpperReference(result)) return {"apart", "upper reference, not comparable"};
  const StrategyAnalysis* fastest = analysis.Fastest();
  if (fastest != nullptr && fastest->result == &result) return {"best", "fastest"};
  return {};
}

std::string TableHtml(const Table& table, const std::vector<RowMark>& marks) {
  std::string html = "<div class=\"wide\" tabindex=\"0\"><table><tr>";
  const auto is_number = [&](size_t column) {
    return table.IsRightAligned(static_cast<int>(column)) ? " class=\"n\"" : "";
  };
  for (size_t c = 0; c < table.headers().size(); ++c) {
    absl::StrAppend(&html, "<th", is_number(c), ">", EscapeMarkup(table.headers()[c]), "</th>");
  }
  html += "</tr>\n";
  for (size_t r = 0; r < table.rows().size(); ++r) {
    const RowMark mark = r < marks.size() ? marks[r] : RowMark();
    absl::StrAppend(&html, "<tr class=\"", mark.css_class, "\">");
    for (size_t c = 0; c < table.rows()[r].size(); ++c) {
      absl::StrAppend(&html, "<td", is_number(c), " data-h=\"", EscapeMarkup(table.headers()[c]),
                      "\">",
                      table.IsRightAligned(static_cast<int>(c)) ? NumberHtml(table.rows()[r][c])
                                                                : EscapeMarkup(table.rows()[r][c]));
      if (c == 0 && !mark.text.empty()) absl::StrAppend(&html, " <em>", mark.text, "</em>");
      html += "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string ChartRowHtml(const std::string& name, const std::string& value, int height_px,
                         const std::string& drawing, const RowMark& mark) {
  return absl::StrCat("<li class=\"", mark.css_class, "\"><div><span>", EscapeMarkup(name),
                      mark.text.empty() ? "" : absl::StrCat(" <em>", mark.text, "</em>"),
                      "</span><b>", EscapeMarkup(value), "</b></div><svg width=\"100%\" height=\"",
                      height_px, "\" aria-hidden=\"true\">", drawing, "</svg></li>\n");
}

std::string ThroughputChart(const CaseAnalysis& analysis) {
  ThroughputScale scale;
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    for (const double speed : strategy.result->images_per_second()) {
      scale.full = std::max(scale.full, 1.01 * speed);
    }
    const double speed = strategy.images_per_second.estimate;
    if (strategy.result->strategy() == "data_parallel" && speed > 0) scale.reference = speed;
  }
  // Intervals may reach far beyond the turns; they end at the edge.
  const double fastest_turn = scale.full;
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    const double high = strategy.images_per_second.high;
    if (high > scale.full) scale.full = std::min(high, 1.25 * fastest_turn);
  }
  if (scale.full <= 0) return "";
  std::string html = "<ul class=\"rows throughput\" aria-label=\"images per second\">\n";
  for (const StrategyAnalysis& strategy : analysis.strategies) {
    if (strategy.result->images_per_second().empty()) continue;
    html +=
        ThroughputRow(strategy, analysis.warm_up_turns, scale, MarkOf(analysis, *strategy.result));
  }
  return html + "</ul>\n";
}

std::string BubbleChart(const CaseResult& results) {
  constexpr int kHeight = 14;
  double largest = 0.05;  // minimum scale, so that little idle time does not look like much
  struct Shown {
    const StrategyResult* result;
    double total;   // idle share
    double factor;  // from the shares of the typical turn
  };
  std::vector<Shown> shown;
  bool used[std::size(kReasons)] = {};
  for (const StrategyResult& result : results.strategies()) {
    if (!Counts(result) || result.idle_by_reason().empty()) continue;
    double sum = 0;
    for (const auto& [reason, share] : result.idle_by_reason()) sum += share;
    const double measured = result.bubble_ratio_measured();
    const double total = std::isnan(measured) ? sum : measured;
    largest = std::max(largest, total);
    shown.push_back({&result, total, sum > 0 ? total / sum : 0});
    for (size_t k = 0; k < std::size(kReasons); ++k) {
      const auto found = result.idle_by_reason().find(kReasons[k]);
      used[k] |= found != result.idle_by_reason().end() && found->second > 0;
    }
  }
  if (shown.empty()) return "";
  std::string html = "<ul class=\"legend\">";
  for (size_t k = 0; k < std::size(kReasons); ++k) {
    if (!used[k]) continue;
    absl::StrAppend(&html, "<li><svg width=\"12\" height=\"12\"><rect class=\"why", k,
                    "\" width=\"12\" height=\"12\" rx=\"2\"/></svg>", kReasons[k], "</li>");
  }
  html += "</ul>\n<ul class=\"rows\" aria-label=\"idle time by reason\">\n";
  for (const auto& [result, total, factor] : shown) {
    double x = 0;
    std::string bar;
    for (size_t k = 0; k < std::size(kReasons); ++k) {
      const auto found = result->idle_by_reason().find(kReasons[k]);
      if (found == result->idle_by_reason().end() || found->second <= 0) continue;
      const double share = factor * found->second;
      absl::StrAppend(&bar, "<rect class=\"why", k, "\" x=\"", NumberText(100 * x / largest),
                      "%\" width=\"", NumberText(100 * share / largest), "%\" height=\"", kHeight,
                      "\"><title>", kReasons[k], ": ", PercentText(share), "</title></rect>");
      x += share;
    }
    html += ChartRowHtml(result->strategy(), PercentText(total), kHeight, bar,
                         {IsUpperReference(*result) ? "apart" : "", ""});
  }
  return html + "</ul>\n";
}

std::vector<LossGroup> GroupLosses(const CaseResult& results) {
  std::vector<LossGroup> groups;
  for (const StrategyResult& result : results.strategies()) {
    if (result.losses().empty()) continue;
    const std::vector<double> losses = Numbers(result.losses());
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const LossGroup& group) { return group.losses == losses; });
    if (same != groups.end()) {
      same->strategies.push_back(result.strategy());
    } else {
      groups.push_back({{result.strategy()}, losses, 0});
    }
  }
  for (LossGroup& group : groups) {
    const std::vector<double>& reference = groups.front().losses;
    for (size_t i = 0; i < std::min(reference.size(), group.losses.size()); ++i) {
      group.max_difference =
          std::max(group.max_difference, std::abs(group.losses[i] - reference[i]));
    }
  }
  return groups;
}

std::string LossChart(const std::vector<LossGroup>& groups) {
  constexpr int kHeight = 230, kTop = 18, kBottom = 24;
  const LossScale scale = ScaleOf(groups);
  if (scale.num_steps == 0) return "";
  const int plot_height = kHeight - kTop - kBottom;
  std::string svg = absl::StrCat("<svg width=\"100%\" height=\"", kHeight,
                                 "\" role=\"img\" aria-label=\"loss by step\">\n");
  for (int i = 0; scale.low + i * scale.tick <= scale.high + scale.tick / 2; ++i) {
    const double loss = scale.low + i * scale.tick;
    const double y = kTop + plot_height * scale.PercentFromTop(loss) / 100;
    absl::StrAppend(&svg, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"", NumberText(y),
                    "\" y2=\"", NumberText(y),
                    "\"/><text class=\"mut\" font-size=\"11\" x=\"0\" y=\"", NumberText(y - 3),
                    "\">", NumberText(loss), "</text>");
  }
  absl::StrAppend(&svg, "<svg x=\"0\" y=\"", kTop, "\" width=\"100%\" height=\"", plot_height,
                  "\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">\n");
  for (size_t g = 0; g < groups.size(); ++g)
    svg += LossCurve(groups[g].losses, static_cast<int>(g), scale);
  absl::StrAppend(
      &svg, "</svg>\n<text class=\"mut\" font-size=\"11\" x=\"0\" y=\"", kHeight - 6,
      "\">step 1</text><text class=\"mut\" font-size=\"11\" text-anchor=\"end\" x=\"100%\" y=\"",
      kHeight - 6, "\">step ", scale.num_steps, "</text></svg>\n");
  return svg;
}

std::string DeviceTimeChart(const std::vector<DeviceTime>& devices, const std::vector<int>& stages,
                            const std::string& id_prefix) {
  std::string html = absl::StrCat(
      "<div><svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
      "<pattern id=\"",
      id_prefix,
      "-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect class=\"hb\" width=\"6\" height=\"6\"/>"
      "<path class=\"hl\" d=\"M0 0V6\"/></pattern></defs></svg>\n"
      "<ul class=\"rows\" aria-label=\"time by device\">\n");
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const DeviceTime& device = devices[rank];
    if (device.step_ns <= 0) continue;
    DeviceBar bar(id_prefix, device.step_ns);
    bar.Add(PassClass(stages[rank], Pass::kForward), "forward", device.forward_ns);
    bar.Add(PassClass(stages[rank], Pass::kRecompute), "recomputing", device.recompute_ns);
    bar.Add(PassClass(stages[rank], Pass::kBackward), "backward", device.backward_ns);
    bar.Add(FrozenClass(0, false), "frozen", device.frozen_ns);
    bar.Add(FrozenClass(0, true), "frozen, next step", device.next_frozen_ns);
    bar.Add("load", "loading", device.load_ns);
    bar.Add("opt", "optimizer", device.optimizer_ns);
    for (int reason = 0; reason < BubbleReason_ARRAYSIZE; ++reason) {
      bar.Add("bub", absl::StrCat("idle: ", BubbleReasonName(static_cast<BubbleReason>(reason))),
              device.idle_ns[reason]);
    }
    html += ChartRowHtml(absl::StrCat("device ", rank),
                         absl::StrCat("idle ", PercentText(device.IdleNs() / device.step_ns)),
                         DeviceBar::kHeight, bar.svg());
  }
  return html + "</ul></div>\n";
}

std::string ChartCss() {
  // Hues of stages are cool and similar; reasons need distinct ones.
  constexpr double kReasonHues[] = {85, 30, 330, 265, 200};
  std::string css;
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    if (theme == Theme::kDark) css += "@media (prefers-color-scheme:dark){\n";
    absl::StrAppend(&css, ":root{--card:", HexText(SurfaceColor(theme)),
                    ";--fg:", HexText(TextColor(theme)), "}\n");
    for (int i = 0; i < kNumSeriesColors; ++i) {
      absl::StrAppend(&css, ".q", i, "{stroke:", HexText(SeriesColor(theme, i)), "}");
    }
    for (size_t k = 0; k < std::size(kReasonHues); ++k) {
      const double lightness = theme == Theme::kLight ? 0.72 : 0.62;
      absl::StrAppend(&css, ".why", k,
                      "{fill:", HexText(OklchToRgb(lightness, 0.13, kReasonHues[k])), "}");
    }
    css += theme == Theme::kDark ? "}\n" : "\n";
  }
  return css;
}

}  // namespace dpipe::report
