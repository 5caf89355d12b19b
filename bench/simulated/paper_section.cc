#include "bench/simulated/paper_section.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::Table;

std::string GroupName(const GridResult& c) {
  return absl::StrCat(c.num_devices, " x ", c.global_batch / c.num_devices);
}

Table TableOf(const Section& section, const Cases& cases) {
  std::vector<std::string> headers{"devices", "global batch"};
  for (const Column& column : section.columns) headers.push_back(column.name);
  if (section.remark) headers.push_back(section.remark_name);
  Table table(headers);
  if (section.remark) table.SetAlign(static_cast<int>(headers.size()) - 1, Table::Align::kLeft);
  for (const GridResult* c : cases) {
    std::vector<std::string> cells{absl::StrCat(c->num_devices), absl::StrCat(c->global_batch)};
    for (const Column& column : section.columns) cells.push_back(section.text(column.value(*c)));
    if (section.remark) cells.push_back(section.remark(*c));
    table.AddRow(cells);
  }
  return table;
}

BarChart ChartOf(const Section& section, const std::string& model, const Cases& cases) {
  BarChart chart;
  chart.title = absl::StrCat(section.title, ": ", model, " (devices x samples per device)");
  chart.origin = section.origin;
  chart.unit = section.unit;
  if (section.per_device) chart.title += ", per device";
  chart.references = section.references;
  for (const GridResult* c : cases) chart.groups.push_back(GroupName(*c));
  for (const Column& column : section.columns) {
    BarSeries series{column.name, {}};
    for (const GridResult* c : cases) {
      const double divisor = section.per_device ? c->num_devices : 1;
      series.values.push_back(section.scale * column.value(*c) / divisor);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::string RateText(double value) {
  if (!std::isfinite(value)) return "-";
  return value >= 100 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.2f", value);
}

std::string RatioText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.2fx", value) : "-";
}

std::string ShapeText(const Outcome* outcome) {
  if (outcome == nullptr) return "-";
  return absl::StrFormat("%s, %d stages, %d x %d samples, groups of %d", outcome->schedule,
                         outcome->num_stages, outcome->num_micro_batches, outcome->micro_batch_size,
                         outcome->devices_per_pipeline);
}

const Outcome* BestUnfilled(const GridResult& c, bool two_copies) {
  const Outcome* best = nullptr;
  for (const Outcome& outcome : c.outcomes) {
    if (outcome.role != Role::kPipeline || !outcome.planned()) continue;
    const bool twice = outcome.schedule == "chimera" || outcome.schedule == "bitpipe";
    if (twice && !two_copies) continue;
    if (best == nullptr || outcome.images_per_second > best->images_per_second) best = &outcome;
  }
  return best;
}

double OverBound(const Outcome* outcome) {
  if (outcome == nullptr) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(outcome->step_ns) / std::max<double>(1, outcome->lower_bound_ns);
}

void AppendSection(const Section& section, const std::string& model, const Cases& cases,
                   PaperReport* out) {
  const std::string picture = absl::StrCat(model, "_", section.key, ".svg");
  absl::StrAppend(&out->markdown, "\n### ", section.title, "\n\n", section.intro, "\n\n",
                  TableOf(section, cases).ToMarkdown(), "\n![", section.title, "](", picture,
                  ")\n");
  out->pictures[picture] = BarChartSvg(ChartOf(section, model, cases));
}

}  // namespace dpipe::bench
