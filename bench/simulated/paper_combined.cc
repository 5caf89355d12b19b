#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/simulated/paper_section.h"
#include "core/report/markup.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::PercentText;
using report::Table;

constexpr double kPromised = 1.15;
// If filling leaves plain DiffusionPipe idle for at least this share, it counts as having too
// little frozen work. With less than 1 - 1 / 1.15 = 13 % there is not enough idle time for a
// speedup of 1.15.
constexpr double kTooLittle = 0.15;

double SpeedupOf(const GridResult& c) { return Speedup(c.Find(kCombined), c.Find(kPlain)); }

// Returns the maximum speedup over DiffusionPipe: its step over the step of the same work without
// any idle time.
double HeadroomOf(const GridResult& c) {
  const Outcome* plain = c.Find(kPlain);
  if (plain == nullptr || c.min_step_ns == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(plain->step_ns) / static_cast<double>(c.min_step_ns);
}

// Returns the share of the time between DiffusionPipe's step and that bound that opendiffusionpipe
// saves.
std::string ShareText(const GridResult& c) {
  const double max_saved = 1 - 1 / HeadroomOf(c), taken = 1 - 1 / SpeedupOf(c);
  return max_saved > 0.001 && std::isfinite(taken)
             ? absl::StrFormat("%.0f %%", 100 * taken / max_saved)
             : "-";
}

bool HasTooLittle(const GridResult& c) {
  return std::isfinite(SpeedupOf(c)) && c.Find(kPlain)->bubble_ratio >= kTooLittle;
}

std::string BubbleText(const Outcome* outcome) {
  return outcome == nullptr ? "-" : PercentText(outcome->bubble_ratio);
}

std::string StepText(const Outcome* outcome) {
  return outcome == nullptr ? "-" : absl::StrFormat("%.1f", outcome->step_ns * 1e-6);
}

std::string ShapeName(const GridResult& c) {
  return c.num_stages == 0 ? "free" : absl::StrCat(c.num_stages, " / ", c.num_micro_batches);
}

Table TableOf(const Cases& cases) {
  Table table({"S / M", "global batch", "diffusionpipe, ms", "opendiffusionpipe, ms", "speedup",
               "headroom", "taken", "bubbles left by diffusionpipe", "by opendiffusionpipe",
               "over its bound", "opendiffusionpipe is"});
  table.SetAlign(0, Table::Align::kLeft);
  table.SetAlign(10, Table::Align::kLeft);
  for (const GridResult* c : cases) {
    const Outcome* plain = c->Find(kPlain);
    const Outcome* combined = c->Find(kCombined);
    const double over_bound = OverBound(combined);
    table.AddRow({ShapeName(*c), absl::StrCat(c->global_batch), StepText(plain), StepText(combined),
                  RatioText(SpeedupOf(*c)), RatioText(HeadroomOf(*c)), ShareText(*c),
                  BubbleText(plain), BubbleText(combined),
                  std::isfinite(over_bound) ? absl::StrFormat("%.3f", over_bound) : "-",
                  ShapeText(combined)});
  }
  return table;
}

// Returns a chart with shapes along the axis and one series per batch.
BarChart ChartOf(const std::string& model, const Cases& cases) {
  BarChart chart;
  chart.title = absl::StrCat("opendiffusionpipe over diffusionpipe: ", model,
                             " (stages / micro-batches, 8 devices)");
  chart.origin = kSimulated;
  chart.unit = "x";
  chart.references = {{"target: 1.15x", kPromised}};
  Cases by_shape = cases;  // free shapes last
  std::stable_sort(by_shape.begin(), by_shape.end(), [](const GridResult* a, const GridResult* b) {
    const auto key = [](const GridResult& c) {
      return std::make_tuple(c.num_stages == 0, c.num_stages, c.num_micro_batches);
    };
    return key(*a) < key(*b);
  });
  for (const GridResult* c : by_shape) {
    const std::string group = ShapeName(*c);
    if (chart.groups.empty() || chart.groups.back() != group) chart.groups.push_back(group);
  }
  for (const GridResult* c : cases) {
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

// Returns minimum, median and maximum.
std::string SpreadText(std::vector<double> values) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return absl::StrCat(RatioText(values[0]), " / ",
                      RatioText((values[(n - 1) / 2] + values[n / 2]) / 2), " / ",
                      RatioText(values[n - 1]));
}

// A part of the grid.
struct Regime {
  std::string name;
  std::function<bool(const GridResult&)> holds;
};

Table RegimeTable(const Cases& cases) {
  const auto cascaded = [](const GridResult& c) { return c.model.rfind("cdm", 0) == 0; };
  const auto flux = [](const GridResult& c) { return c.model.rfind("flux", 0) == 0; };
  const auto text_to_image = [=](const GridResult& c) { return !cascaded(c) && !flux(c); };
  const std::vector<Regime> regimes = {
      {"8 stages, 8 micro-batches; Stable Diffusion, ControlNet",
       [=](const GridResult& c) {
         return text_to_image(c) && c.num_stages == 8 && c.num_micro_batches == 8;
       }},
      {"2 samples per device, any given S and M; Stable Diffusion, ControlNet",
       [=](const GridResult& c) {
         return text_to_image(c) && c.num_stages > 0 && c.global_batch == 2 * c.num_devices;
       }},
      {"CDM, 8 stages, any given M",
       [=](const GridResult& c) { return cascaded(c) && c.num_stages == 8; }},
      {"CDM, S and M free: each strategy's own choice",
       [=](const GridResult& c) { return cascaded(c) && c.num_stages == 0; }},
      {"FLUX-size, 8 stages, any given M",
       [=](const GridResult& c) { return flux(c) && c.num_stages == 8; }},
      {"FLUX-size, S and M free",
       [=](const GridResult& c) { return flux(c) && c.num_stages == 0; }},
      {"Stable Diffusion, ControlNet, S and M free",
       [=](const GridResult& c) { return text_to_image(c) && c.num_stages == 0; }},
      {"the whole grid", [](const GridResult&) { return true; }}};
  Table table({"cases", "both planned", "too little frozen work", "of these at least 1.15x",
               "of these: min / median / max", "min headroom", "the others: min / median / max",
               "only opendiffusionpipe fits", "neither"});
  table.SetAlign(0, Table::Align::kLeft);
  for (const Regime& regime : regimes) {
    std::vector<double> speedups[2];  // by HasTooLittle: enough frozen work, or too little
    double min_headroom = std::numeric_limits<double>::quiet_NaN();
    int alone = 0, neither = 0;
    for (const GridResult* c : cases) {
      if (!regime.holds(*c)) continue;
      if (!std::isfinite(SpeedupOf(*c))) {
        ++(c->Find(kCombined) != nullptr ? alone : neither);
        continue;
      }
      speedups[HasTooLittle(*c)].push_back(SpeedupOf(*c));
      if (HasTooLittle(*c)) min_headroom = std::fmin(min_headroom, HeadroomOf(*c));
    }
    const auto enough = std::count_if(speedups[1].begin(), speedups[1].end(),
                                      [](double speedup) { return speedup >= kPromised; });
    table.AddRow({regime.name, absl::StrCat(speedups[0].size() + speedups[1].size()),
                  absl::StrCat(speedups[1].size()), absl::StrCat(enough), SpreadText(speedups[1]),
                  RatioText(min_headroom), SpreadText(speedups[0]), absl::StrCat(alone),
                  absl::StrCat(neither)});
  }
  return table;
}

// Lists the cases with too little frozen work that miss the aim.
std::string Missed(const Cases& cases) {
  std::string text;
  for (const GridResult* c : cases) {
    if (!HasTooLittle(*c) || SpeedupOf(*c) >= kPromised) continue;
    absl::StrAppend(&text, "- ", c->model, ", S / M ", ShapeName(*c), ", batch ", c->global_batch,
                    ": ", RatioText(SpeedupOf(*c)), " with a headroom of ",
                    RatioText(HeadroomOf(*c)), "\n");
  }
  return text.empty() ? "" : "\nOf these below 1.15x:\n\n" + text;
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
      "its own. A strategy that recomputes may fit if the other does not.\n\nFrozen work counts as "
      "too little if filling leaves diffusionpipe idle for at least 15 % of its step; at less than "
      "13 % the same work cannot be done 1.15 times as fast. Headroom is diffusionpipe's step "
      "divided by the time of all work if no device is ever idle: no plan of that shape is faster, "
      "and filling and draining a pipeline may keep all plans from reaching it. Taken is the share "
      "of the time in between that opendiffusionpipe saves.\n\n",
      RegimeTable(all).ToMarkdown(), Missed(all));
  for (const auto& [model, cases] : by_model) {
    const std::string picture = model + "_combined.svg";
    absl::StrAppend(&out->markdown, "\n### ", model, ", ", cases[0]->cluster, "\n\n",
                    TableOf(cases).ToMarkdown(), "\n![speedups](", picture, ")\n");
    out->pictures[picture] = BarChartSvg(ChartOf(model, cases));
  }
}

}  // namespace dpipe::bench
