#include "core/report/html_charts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/report/markup.h"
#include "core/report/palette.h"
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

std::string ThroughputRow(const StrategyResult& result, double full_scale, int y, bool best) {
  constexpr int kBarTop = 20, kBarHeight = 16;
  const auto percent = [&](double value) { return NumberText(100 * value / full_scale); };
  const double median = result.MedianImagesPerSecond();
  std::string value = absl::StrFormat(median >= 100 ? "%.1f img/s" : "%.2f img/s", median);
  if (!std::isnan(result.speedup_vs_data_parallel)) {
    absl::StrAppend(&value, absl::StrFormat(" · %.2f×", result.speedup_vs_data_parallel));
  }
  std::string svg = absl::StrCat(
      "<g transform=\"translate(0 ", y,
      ")\"><text x=\"0\" y=\"13\" font-size=\"14\" font-weight=\"600\">",
      EscapeMarkup(result.strategy),
      "</text><text x=\"100%\" y=\"13\" font-size=\"14\" text-anchor=\"end\">", value,
      "</text><rect class=\"bar", best ? " best" : "", "\" x=\"0\" y=\"", kBarTop, "\" width=\"",
      percent(median), "%\" height=\"", kBarHeight, "\" rx=\"3\"><title>",
      EscapeMarkup(result.strategy), ": ", value, "</title></rect>");
  for (double sample : result.images_per_second) {
    absl::StrAppend(&svg, "<circle class=\"sample\" cx=\"", percent(sample), "%\" cy=\"",
                    kBarTop + kBarHeight / 2, "\" r=\"2\"/>");
  }
  return svg + "</g>\n";
}

}  // namespace

std::string ThroughputChart(const BenchResults& results) {
  constexpr int kRow = 48;
  const double full_scale = LargestSample(results) * 1.01;
  if (full_scale <= 0) return "";
  double best = 0;
  for (const StrategyResult& result : results.results)
    best = std::fmax(best, result.MedianImagesPerSecond());
  const int height = kRow * static_cast<int>(results.results.size());
  std::string svg = absl::StrCat("<svg class=\"throughput\" width=\"100%\" height=\"", height,
                                 "\" role=\"img\" aria-label=\"images per second by strategy\">\n");
  int y = 0;
  for (const StrategyResult& result : results.results) {
    if (!result.images_per_second.empty()) {
      svg += ThroughputRow(result, full_scale, y, result.MedianImagesPerSecond() == best);
    }
    y += kRow;
  }
  const StrategyResult* reference = results.Find("data_parallel");
  if (reference != nullptr && !reference->images_per_second.empty()) {
    const std::string x = NumberText(100 * reference->MedianImagesPerSecond() / full_scale);
    for (int row = 0; row * kRow < height; ++row) {
      absl::StrAppend(&svg, "<line class=\"ref\" x1=\"", x, "%\" x2=\"", x, "%\" y1=\"",
                      row * kRow + 18, "\" y2=\"", row * kRow + 38, "\"/>");
    }
  }
  return svg + "</svg>\n";
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
  size_t num_steps = 0;
  double low = INFINITY, high = -INFINITY;
  for (const LossGroup& group : groups) {
    num_steps = std::max(num_steps, group.losses.size());
    for (double loss : group.losses) {
      if (!std::isfinite(loss)) continue;
      low = std::min(low, loss);
      high = std::max(high, loss);
    }
  }
  if (num_steps == 0 || !std::isfinite(low)) return "";
  const double tick = NiceTick(std::max(high - low, 1e-9), 5);
  low = std::floor(low / tick) * tick;
  high = std::max(low + tick, std::ceil(high / tick) * tick);
  const int plot_height = kHeight - kTop - kBottom;
  std::string svg = absl::StrCat("<svg width=\"100%\" height=\"", kHeight,
                                 "\" role=\"img\" aria-label=\"loss by step\">\n");
  for (int i = 0; low + i * tick <= high + tick / 2; ++i) {
    const double y = kTop + plot_height * (1 - i * tick / (high - low));
    absl::StrAppend(&svg, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"", NumberText(y),
                    "\" y2=\"", NumberText(y),
                    "\"/><text class=\"mut\" font-size=\"11\" x=\"0\" y=\"", NumberText(y - 3),
                    "\">", NumberText(low + i * tick), "</text>");
  }
  absl::StrAppend(&svg, "<svg x=\"0\" y=\"", kTop, "\" width=\"100%\" height=\"", plot_height,
                  "\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">\n");
  for (size_t g = 0; g < groups.size(); ++g) {
    absl::StrAppend(&svg, "<polyline class=\"curve q", g % kNumStageHues, "\"",
                    g > 0 ? " stroke-dasharray=\"6 5\"" : "", " points=\"");
    for (size_t i = 0; i < groups[g].losses.size(); ++i) {
      if (!std::isfinite(groups[g].losses[i])) continue;
      const double x =
          num_steps > 1 ? 100.0 * static_cast<double>(i) / static_cast<double>(num_steps - 1) : 50;
      absl::StrAppend(&svg, NumberText(x), ",",
                      NumberText(100 * (high - groups[g].losses[i]) / (high - low)), " ");
    }
    svg += "\"/>\n";
  }
  absl::StrAppend(
      &svg, "</svg>\n<text class=\"mut\" font-size=\"11\" x=\"0\" y=\"", kHeight - 6,
      "\">step 1</text><text class=\"mut\" font-size=\"11\" text-anchor=\"end\" x=\"100%\" y=\"",
      kHeight - 6, "\">step ", num_steps, "</text></svg>\n");
  return svg;
}

std::string DeviceTimeChart(const std::vector<DeviceTime>& devices, const std::string& id_prefix) {
  constexpr int kRow = 26, kBar = 20, kLabel = 70;
  std::string svg =
      absl::StrCat("<svg width=\"100%\" height=\"", kRow * devices.size(),
                   "\" role=\"img\" aria-label=\"time by device\">"
                   "<defs><pattern id=\"",
                   id_prefix,
                   "-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                   "patternTransform=\"rotate(45)\"><rect class=\"hb\" width=\"6\" "
                   "height=\"6\"/><path class=\"hl\" "
                   "d=\"M0 0V6\"/></pattern></defs>\n");
  // Room for names is judged at the width of a small screen.
  constexpr double kNominalPx = 620;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const DeviceTime& device = devices[rank];
    if (device.step_ns <= 0) continue;
    absl::StrAppend(&svg, "<text class=\"mut\" font-size=\"12\" x=\"0\" y=\"", rank * kRow + 14,
                    "\">device ", rank, "</text><svg x=\"", kLabel, "\" y=\"", rank * kRow,
                    "\" style=\"width:calc(100% - ", kLabel, "px)\" height=\"", kBar, "\">");
    double x = 0;
    const auto add = [&](const std::string& css_class, const std::string& name, double time_ns) {
      const double share = time_ns / device.step_ns;
      if (share < 0.0005) return;
      const std::string text = absl::StrCat(name, " ", PercentText(share));
      absl::StrAppend(
          &svg, "<g class=\"e\"><title>", text, " of a step, ", ShortDuration(time_ns),
          "</title><rect class=\"", css_class, "\"",
          css_class == "bub" ? absl::StrCat(" fill=\"url(#", id_prefix, "-hatch)\"") : "", " x=\"",
          NumberText(100 * x), "%\" width=\"", NumberText(100 * share), "%\" height=\"", kBar,
          "\"/>");
      if (6.4 * DisplayWidth(text) + 4 < share * kNominalPx) {
        absl::StrAppend(&svg, "<text class=\"t", css_class, "\" x=\"",
                        NumberText(100 * (x + share / 2)), "%\" y=\"14\">", text, "</text>");
      }
      svg += "</g>";
      x += share;
    };
    add(PassClass(static_cast<int>(rank), Pass::kForward), "forward", device.forward_ns);
    add(PassClass(static_cast<int>(rank), Pass::kBackward), "backward", device.backward_ns);
    add(FrozenClass(0), "frozen", device.frozen_ns);
    add("load", "loading", device.load_ns);
    add("opt", "optimizer", device.optimizer_ns);
    for (int reason = 0; reason < BubbleReason_ARRAYSIZE; ++reason) {
      add("bub", absl::StrCat("idle: ", BubbleReasonName(static_cast<BubbleReason>(reason))),
          device.idle_ns[reason]);
    }
    svg += "</svg>\n";
  }
  return svg + "</svg>\n";
}

std::string ChartCss() {
  std::string css;
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    if (theme == Theme::kDark) css += "@media (prefers-color-scheme:dark){\n";
    absl::StrAppend(&css, ":root{--card:", HexText(SurfaceColor(theme)),
                    ";--fg:", HexText(TextColor(theme)), "}\n");
    for (int i = 0; i < kNumStageHues; ++i) {
      const std::string color = HexText(PassColor(theme, i, Pass::kBackward));
      absl::StrAppend(&css, ".q", i, "{stroke:", color, "}");
    }
    css += theme == Theme::kDark ? "}\n" : "\n";
  }
  return css;
}

}  // namespace dpipe::report
