#include "core/report/page/html_charts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/page/markup.h"
#include "core/report/page/palette.h"
#include "core/report/text_width.h"

namespace dpipe::report {
namespace {

double LargestSample(const BenchResults& results) {
  double largest = 0;
  for (const StrategyResult& result : results.results) {
    for (double sample : result.images_per_second) largest = std::max(largest, sample);
  }
  return largest;
}

constexpr int kBarPx = 16;

// Draws the dots of all samples, and the median's interval over the bar's end.
std::string SampleDots(const StrategyResult& result, const SampleMarks& marks, double full_scale) {
  const int y = kBarPx / 2;
  const auto percent = [&](double value) { return NumberText(100 * value / full_scale); };
  std::string svg;
  for (size_t i = 0; i < result.images_per_second.size(); ++i) {
    const bool outlier = i < marks.outliers.size() && marks.outliers[i];
    const bool warm_up = static_cast<int>(i) < marks.warm_up;
    absl::StrAppend(&svg, "<circle class=\"sample", outlier ? " outlier" : "",
                    warm_up ? " warm-up" : "", "\" cx=\"", percent(result.images_per_second[i]),
                    "%\" cy=\"", y, "\" r=\"", outlier ? "3.5" : "2.5", "\"><title>turn ", i + 1,
                    ": ", NumberText(result.images_per_second[i]), " img/s",
                    outlier ? ", an outlier" : "", warm_up ? ", warm-up" : "", "</title></circle>");
  }
  if (std::isnan(marks.low) || marks.low == marks.high) return svg;
  const std::string low = percent(marks.low), high = percent(marks.high);
  absl::StrAppend(&svg, "<g class=\"whisker\"><line x1=\"", low, "%\" x2=\"", high, "%\" y1=\"", y,
                  "\" y2=\"", y, "\"/>");
  for (const std::string& end : {low, high}) {
    absl::StrAppend(&svg, "<line x1=\"", end, "%\" x2=\"", end, "%\" y1=\"", y - 5, "\" y2=\"",
                    y + 5, "\"/>");
  }
  return svg + "</g>";
}

// `reference` is the images per second at the dashed line; 0: no line.
std::string ThroughputRow(const StrategyResult& result, const SampleMarks& marks, double full_scale,
                          double reference, bool best) {
  const auto percent = [&](double value) { return NumberText(100 * value / full_scale); };
  const double median = result.MedianImagesPerSecond();
  std::string value = absl::StrFormat(median >= 100 ? "%.1f img/s" : "%.2f img/s", median);
  if (!std::isnan(result.speedup_vs_data_parallel)) {
    absl::StrAppend(&value, absl::StrFormat(" · %.2f×", result.speedup_vs_data_parallel));
  }
  if (!result.invalid.empty()) value = "invalid";
  std::string drawing =
      absl::StrCat("<rect class=\"bar", best ? " best" : "", "\" width=\"", percent(median),
                   "%\" height=\"", kBarPx, "\" rx=\"3\"><title>", EscapeMarkup(result.strategy),
                   ": ", value, "</title></rect>", SampleDots(result, marks, full_scale));
  if (reference > 0) {
    const std::string x = percent(reference);
    absl::StrAppend(&drawing, "<line class=\"ref\" x1=\"", x, "%\" x2=\"", x, "%\" y1=\"0\" y2=\"",
                    kBarPx, "\"/>");
  }
  return ChartRowHtml(result.strategy, value, kBarPx, drawing);
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

}  // namespace

std::string ChartRowHtml(const std::string& name, const std::string& value, int height_px,
                         const std::string& drawing) {
  return absl::StrCat("<li><div><span>", EscapeMarkup(name), "</span><b>", EscapeMarkup(value),
                      "</b></div><svg width=\"100%\" height=\"", height_px,
                      "\" aria-hidden=\"true\">", drawing, "</svg></li>\n");
}

std::string ThroughputChart(const BenchResults& results, const std::vector<SampleMarks>& marks) {
  const double full_scale = LargestSample(results) * 1.01;
  if (full_scale <= 0) return "";
  double best = 0;
  for (const StrategyResult& result : results.results) {
    if (result.counts()) best = std::fmax(best, result.MedianImagesPerSecond());
  }
  const StrategyResult* data_parallel = results.Find("data_parallel");
  const bool refers = data_parallel != nullptr && data_parallel->counts();
  const double reference = refers ? data_parallel->MedianImagesPerSecond() : 0;
  std::string html = "<ul class=\"rows throughput\" aria-label=\"images per second\">\n";
  for (size_t i = 0; i < results.results.size(); ++i) {
    const StrategyResult& result = results.results[i];
    if (result.images_per_second.empty()) continue;
    html += ThroughputRow(result, marks.empty() ? SampleMarks() : marks[i], full_scale, reference,
                          result.counts() && result.MedianImagesPerSecond() == best);
  }
  return html + "</ul>\n";
}

std::vector<LossGroup> GroupLosses(const BenchResults& results) {
  std::vector<LossGroup> groups;
  for (const StrategyResult& result : results.results) {
    if (result.losses.empty()) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const LossGroup& group) {
      return group.losses == result.losses;
    });
    if (same != groups.end()) {
      same->strategies.push_back(result.strategy);
    } else {
      groups.push_back({{result.strategy}, result.losses, 0});
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
    bar.Add(FrozenClass(0), "frozen", device.frozen_ns);
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
  std::string css;
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    if (theme == Theme::kDark) css += "@media (prefers-color-scheme:dark){\n";
    absl::StrAppend(&css, ":root{--card:", HexText(SurfaceColor(theme)),
                    ";--fg:", HexText(TextColor(theme)), "}\n");
    for (int i = 0; i < kNumSeriesColors; ++i) {
      absl::StrAppend(&css, ".q", i, "{stroke:", HexText(SeriesColor(theme, i)), "}");
    }
    css += theme == Theme::kDark ? "}\n" : "\n";
  }
  return css;
}

}  // namespace dpipe::report
