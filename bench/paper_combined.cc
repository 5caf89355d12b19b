#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/paper_section.h"
#include "core/report/markup.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::PercentText;
using report::Table;

constexpr double kPromised = 1.15;

double SpeedupOf(const CaseResult& c) { return Speedup(c.Find(kCombined), c.Find(kPlain)); }

std::string BubbleText(const Outcome* outcome) {
  return outcome == nullptr ? "-" : PercentText(outcome->bubble_ratio);
}

std::string StepText(const Outcome* outcome) {
  return outcome == nullptr ? "-" : absl::StrFormat("%.1f", outcome->step_ns * 1e-6);
}

std::string ShapeName(const CaseResult& c) {
  return c.num_stages == 0 ? "free" : absl::StrCat(c.num_stages, " / ", c.num_micro_batches);
}

Table TableOf(const Cases& cases) {
  Table table({"S / M", "global batch", "diffusionpipe, ms", "opendiffusionpipe, ms", "speedup",
               "bubbles of the former", "of the latter", "over its bound", "opendiffusionpipe is"});
  table.SetAlign(0, Table::Align::kLeft);
  table.SetAlign(8, Table::Align::kLeft);
  for (const CaseResult* c : cases) {
    const Outcome* plain = c->Find(kPlain);
    const Outcome* combined = c->Find(kCombined);
    const double over_bound = OverBound(combined);
    table.AddRow({ShapeName(*c), absl::StrCat(c->global_batch), StepText(plain), StepText(combined),
                  RatioText(SpeedupOf(*c)), BubbleText(plain), BubbleText(combined),
                  std::isfinite(over_bound) ? absl::StrFormat("%.3f", over_bound) : "-",
                  ShapeText(combined)});
  }
  return table;
}

// Shapes along the axis, a series a batch.
BarChart ChartOf(const std::string& model, const Cases& cases) {
  BarChart chart;
  chart.title = absl::StrCat("opendiffusionpipe over diffusionpipe: ", model,
                             " (stages / micro-batches, 8 devices)");
  chart.unit = "x";
  chart.references = {{"the aim: 1.15x", kPromised}};
  Cases by_shape = cases;  // free ones last
  std::stable_sort(by_shape.begin(), by_shape.end(), [](const CaseResult* a, const CaseResult* b) {
    const auto key = [](const CaseResult& c) {
      return std::make_tuple(c.num_stages == 0, c.num_stages, c.num_micro_batches);
    };
    return key(*a) < key(*b);
  });
  for (const CaseResult* c : by_shape) {
    const std::string group = ShapeName(*c);
    if (chart.groups.empty() || chart.groups.back() != group) chart.groups.push_back(group);
  }
  for (const CaseResult* c : cases) {
    const std::string batch = absl::StrCat("batch ", c->global_batch);
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const BarSeries& s) { return s.name == batch; });
    if (series == chart.series.end()) {
      const std::vector<double> none(chart.groups.size(), std::numeric_limits<double>::quiet_NaN());
      series = chart.series.insert(chart.series.end(), BarSeries{batch, none});
    }
    const auto group = std::find(chart.groups.begin(), chart.groups.end(), ShapeName(*c));
    series->values[group - chart.groups.begin()] = SpeedupOf(*c);
  }
  return chart;
}

// One of the regimes where frozen work is too little for plain filling.
struct Regime {
  std::string name;
  std::function<bool(const CaseResult&)> holds;
};

Table RegimeTable(const Cases& cases) {
  const auto cascaded = [](const CaseResult& c) { return c.model.rfind("cdm", 0) == 0; };
  const auto flux = [](const CaseResult& c) { return c.model.rfind("flux", 0) == 0; };
  const auto text_to_image = [=](const CaseResult& c) { return !cascaded(c) && !flux(c); };
  const std::vector<Regime> regimes = {
      {"8 stages, 8 micro-batches; Stable Diffusion, ControlNet",
       [=](const CaseResult& c) {
         return text_to_image(c) && c.num_stages == 8 && c.num_micro_batches == 8;
       }},
      {"2 samples a device, any asked S and M; Stable Diffusion, ControlNet",
       [=](const CaseResult& c) {
         return text_to_image(c) && c.num_stages > 0 && c.global_batch == 2 * c.num_devices;
       }},
      {"CDM, 8 stages, any asked M",
       [=](const CaseResult& c) { return cascaded(c) && c.num_stages == 8; }},
      {"CDM, S and M free: each strategy's own choice",
       [=](const CaseResult& c) { return cascaded(c) && c.num_stages == 0; }},
      {"FLUX-size, 8 stages, any asked M",
       [=](const CaseResult& c) { return flux(c) && c.num_stages == 8; }},
      {"FLUX-size, S and M free",
       [=](const CaseResult& c) { return flux(c) && c.num_stages == 0; }},
      {"Stable Diffusion, ControlNet, S and M free",
       [=](const CaseResult& c) { return text_to_image(c) && c.num_stages == 0; }},
      {"all of the grid", [](const CaseResult&) { return true; }}};
  Table table({"where", "speedup: least / median / most", "at least 1.15x", "both planned",
               "only opendiffusionpipe fits", "neither"});
  table.SetAlign(0, Table::Align::kLeft);
  for (const Regime& regime : regimes) {
    std::vector<double> speedups;
    int alone = 0, neither = 0;
    for (const CaseResult* c : cases) {
      if (!regime.holds(*c)) continue;
      if (std::isfinite(SpeedupOf(*c))) {
        speedups.push_back(SpeedupOf(*c));
      } else {
        ++(c->Find(kCombined) != nullptr ? alone : neither);
      }
    }
    std::sort(speedups.begin(), speedups.end());
    const auto enough =
        speedups.end() - std::lower_bound(speedups.begin(), speedups.end(), kPromised);
    const size_t n = speedups.size();
    table.AddRow({regime.name,
                  n == 0 ? "-"
                         : absl::StrCat(RatioText(speedups[0]), " / ",
                                        RatioText((speedups[(n - 1) / 2] + speedups[n / 2]) / 2),
                                        " / ", RatioText(speedups[n - 1])),
                  absl::StrCat(enough), absl::StrCat(n), absl::StrCat(alone),
                  absl::StrCat(neither)});
  }
  return table;
}

}  // namespace

void AppendCombinedGrid(const std::vector<std::pair<std::string, Cases>>& by_model,
                        PaperReport* out) {
  if (by_model.empty()) return;
  Cases all;
  for (const auto& entry : by_model) {
    all.insert(all.end(), entry.second.begin(), entry.second.end());
  }
  absl::StrAppend(
      &out->markdown,
      "\n## Zero-bubble and V schedules with filling, against plain DiffusionPipe\n\nBoth on the "
      "same 8 devices with the same memory, at the same depth S (in groups of S devices), the same "
      "number M of a group's micro-batches and the same batch; in rows marked free each chooses "
      "its own. A strategy that recomputes may fit where the other does not.\n\n",
      RegimeTable(all).ToMarkdown());
  for (const auto& [model, cases] : by_model) {
    const std::string picture = model + "_combined.svg";
    absl::StrAppend(&out->markdown, "\n### ", model, ", ", cases[0]->cluster, "\n\n",
                    TableOf(cases).ToMarkdown(), "\n![speedups](", picture, ")\n");
    out->pictures[picture] = BarChartSvg(ChartOf(model, cases));
  }
}

}  // namespace dpipe::bench
