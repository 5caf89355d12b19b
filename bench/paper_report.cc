#include "bench/paper_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/bar_chart.h"
#include "core/report/markup.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::PercentText;
using report::Table;

constexpr char kOurs[] = "diffusionpipe";
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Cases = std::vector<const CaseResult*>;  // of one model

std::string RateText(double value) {
  if (!std::isfinite(value)) return "-";
  return value >= 100 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.2f", value);
}

std::string MillisecondsText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.1f", value) : "-";
}

std::string RatioText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.2fx", value) : "-";
}

std::string GroupName(const CaseResult& c) {
  return absl::StrCat(c.num_devices, " x ", c.global_batch / c.num_devices);
}

// The columns that every table begins with.
std::vector<std::string> CaseCells(const CaseResult& c) {
  return {absl::StrCat(c.num_devices), absl::StrCat(c.global_batch)};
}

// A column of a table and a series of its plot.
struct Column {
  std::string name;
  std::function<double(const CaseResult&)> value;
};

// One table and its plot.
struct Section {
  std::string key;  // of the picture's file name
  std::string title;
  std::string intro;  // a paragraph
  std::string unit;
  double scale = 1;  // of values in the plot
  std::vector<Column> columns;
  std::function<std::string(double)> text;
  std::vector<ReferenceLine> references;
  // A last column of text, not plotted; empty: none.
  std::string remark_name;
  std::function<std::string(const CaseResult&)> remark;
};

Section NewSection(const std::string& key, const std::string& title, const std::string& intro,
                   const std::string& unit) {
  Section section;
  section.key = key;
  section.title = title;
  section.intro = intro;
  section.unit = unit;
  return section;
}

double RateOf(const Outcome* outcome) {
  return outcome == nullptr ? kNone : outcome->images_per_second;
}

Section Throughput(const Cases& cases) {
  Section section = NewSection("throughput", "Throughput",
                               "Images a second of the whole cluster, simulated.", "images/s");
  section.text = RateText;
  for (const Outcome& outcome : cases[0]->outcomes) {
    const std::string label = outcome.label;
    section.columns.push_back(
        {label, [label](const CaseResult& c) { return RateOf(c.Find(label)); }});
  }
  return section;
}

Section Speedups() {
  Section section =
      NewSection("speedups", "Speedups of diffusionpipe",
                 "Over each rival's own best plan. The last column is the fastest strategy that "
                 "fills bubbles over diffusionpipe.",
                 "x");
  section.text = RatioText;
  for (const std::string rival : {"data_parallel", "zero3", "gpipe", "spp"}) {
    section.columns.push_back({"over " + rival, [rival](const CaseResult& c) {
                                 return Speedup(c.Find(kOurs), c.Find(rival));
                               }});
  }
  section.columns.push_back({"over the best pipeline", [](const CaseResult& c) {
                               return Speedup(c.Find(kOurs), c.Fastest(Role::kPipeline));
                             }});
  section.columns.push_back({"best filled over diffusionpipe", [](const CaseResult& c) {
                               return Speedup(c.Fastest(Role::kFilled), c.Find(kOurs));
                             }});
  section.references = {
      {"published: up to 1.41x over pipelines", kPublishedPipelineSpeedup},
      {"published: up to 1.28x over data parallelism", kPublishedDataParallelSpeedup}};
  section.remark_name = "best pipeline; best filled";
  section.remark = [](const CaseResult& c) {
    const Outcome* pipeline = c.Fastest(Role::kPipeline);
    const Outcome* filled = c.Fastest(Role::kFilled);
    return absl::StrCat(pipeline == nullptr ? "-" : pipeline->label, "; ",
                        filled == nullptr ? "-" : filled->label);
  };
  return section;
}

Section Bubbles() {
  Section section =
      NewSection("bubbles", "Bubbles of diffusionpipe",
                 "Idle compute time over devices x step, steady state: of the same schedule "
                 "before filling, and filled. The published bound speaks of the paper's runs.",
                 "%");
  section.scale = 100;
  section.text = PercentText;
  section.columns = {{"before filling",
                      [](const CaseResult& c) {
                        const Outcome* ours = c.Find(kOurs);
                        const bool filled = ours != nullptr && ours->unfilled_bubble_ratio > 0;
                        return filled ? ours->unfilled_bubble_ratio : kNone;
                      }},
                     {"after filling", [](const CaseResult& c) {
                        const Outcome* ours = c.Find(kOurs);
                        return ours == nullptr ? kNone : ours->bubble_ratio;
                      }}};
  section.references = {{"published: below 5 %", 100 * kPublishedBubbleRatio}};
  section.remark_name = "step / bound; schedule, stages x micro-batches x samples, devices";
  section.remark = [](const CaseResult& c) -> std::string {
    const Outcome* ours = c.Find(kOurs);
    if (ours == nullptr) return "-";
    return absl::StrFormat(
        "%.3f; %s, %d x %d x %d, %d",
        static_cast<double>(ours->step_ns) / std::max<double>(1, ours->lower_bound_ns),
        ours->schedule, ours->num_stages, ours->num_micro_batches, ours->micro_batch_size,
        ours->devices_per_pipeline);
  };
  return section;
}

Section Ablations(const Cases& cases) {
  Section section =
      NewSection("ablations", "Ablations",
                 "Throughput of diffusionpipe with something taken away or changed, over "
                 "diffusionpipe's.",
                 "x");
  section.text = RatioText;
  for (size_t i = 0; i < cases[0]->ablations.size(); ++i) {
    section.columns.push_back({cases[0]->ablations[i].label, [i](const CaseResult& c) {
                                 const Outcome& outcome = c.ablations[i];
                                 return outcome.planned() ? Speedup(&outcome, c.Find(kOurs))
                                                          : kNone;
                               }});
  }
  return section;
}

Section PlanningTime(const Cases& cases) {
  Section section =
      NewSection("planning", "Planning time",
                 "Milliseconds of the whole search on one core of the machine named above.", "ms");
  section.text = MillisecondsText;
  for (const Outcome& outcome : cases[0]->outcomes) {
    const std::string label = outcome.label;
    section.columns.push_back({label, [label](const CaseResult& c) {
                                 const Outcome* found = c.Find(label);
                                 return found == nullptr ? kNone
                                                         : static_cast<double>(found->planning_ns) /
                                                               kNanosPerMilli;
                               }});
  }
  return section;
}

Table TableOf(const Section& section, const Cases& cases) {
  std::vector<std::string> headers{"devices", "global batch"};
  for (const Column& column : section.columns) headers.push_back(column.name);
  if (section.remark) headers.push_back(section.remark_name);
  Table table(headers);
  if (section.remark) table.SetAlign(static_cast<int>(headers.size()) - 1, Table::Align::kLeft);
  for (const CaseResult* c : cases) {
    std::vector<std::string> cells = CaseCells(*c);
    for (const Column& column : section.columns) cells.push_back(section.text(column.value(*c)));
    if (section.remark) cells.push_back(section.remark(*c));
    table.AddRow(cells);
  }
  return table;
}

BarChart ChartOf(const Section& section, const std::string& model, const Cases& cases) {
  BarChart chart;
  chart.title = absl::StrCat(section.title, ": ", model, " (devices x samples a device)");
  chart.unit = section.unit;
  chart.references = section.references;
  for (const CaseResult* c : cases) chart.groups.push_back(GroupName(*c));
  for (const Column& column : section.columns) {
    BarSeries series{column.name, {}};
    for (const CaseResult* c : cases) series.values.push_back(section.scale * column.value(*c));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// Each reason once, with where it first came.
std::string Refusals(const Cases& cases) {
  std::set<std::string> seen;
  std::string text;
  for (const CaseResult* c : cases) {
    for (const auto* outcomes : {&c->outcomes, &c->ablations}) {
      for (const Outcome& outcome : *outcomes) {
        if (outcome.planned() || !seen.insert(outcome.label + outcome.refusal).second) continue;
        absl::StrAppend(&text, "- ", outcome.label, ", ", c->num_devices, " devices, batch ",
                        c->global_batch, ": ", outcome.refusal, "\n");
      }
    }
  }
  return text.empty() ? "" : absl::StrCat("\nNot planned, and why (each reason once):\n\n", text);
}

void AppendModel(const std::string& model, const Cases& cases, const ReportSource& source,
                 PaperReport* out) {
  absl::StrAppend(&out->markdown, "\n## ", model, "\n");
  const auto provenance = source.provenance.find(model);
  if (provenance != source.provenance.end()) {
    absl::StrAppend(&out->markdown, "\nProfile: ", provenance->second, "\n");
  }
  for (const Section& section :
       {Throughput(cases), Speedups(), Bubbles(), Ablations(cases), PlanningTime(cases)}) {
    const std::string picture = absl::StrCat(model, "_", section.key, ".svg");
    absl::StrAppend(&out->markdown, "\n### ", section.title, "\n\n", section.intro, "\n\n",
                    TableOf(section, cases).ToMarkdown(), "\n![", section.title, "](", picture,
                    ")\n");
    out->pictures[picture] = BarChartSvg(ChartOf(section, model, cases));
  }
  out->markdown += Refusals(cases);
}

// Published maxima beside this grid's, over all cases.
std::string Maxima(const std::vector<CaseResult>& results) {
  double over_pipeline = kNone, over_data_parallel = kNone, largest = kNone, smallest = kNone;
  for (const CaseResult& c : results) {
    const Outcome* ours = c.Find(kOurs);
    if (ours == nullptr) continue;
    over_pipeline = std::fmax(over_pipeline, Speedup(ours, c.Fastest(Role::kPipeline)));
    over_data_parallel =
        std::fmax(over_data_parallel, Speedup(ours, c.Fastest(Role::kDataParallel)));
    largest = std::fmax(largest, ours->bubble_ratio);
    smallest = std::fmin(smallest, ours->bubble_ratio);
  }
  Table table({"", "published by the paper, measured on its machines", "here, simulated"});
  table.AddRow({"diffusionpipe over pipelines, at most", RatioText(kPublishedPipelineSpeedup),
                RatioText(over_pipeline) + " (over the best of them in each case)"});
  table.AddRow({"over data parallelism, at most", RatioText(kPublishedDataParallelSpeedup),
                RatioText(over_data_parallel)});
  table.AddRow({"bubbles after filling", "below " + PercentText(kPublishedBubbleRatio),
                PercentText(smallest) + " to " + PercentText(largest)});
  return table.ToMarkdown();
}

}  // namespace

PaperReport MakePaperReport(const std::vector<CaseResult>& results, const ReportSource& source) {
  PaperReport report;
  report.markdown = absl::StrCat(
      "# Strategies compared by simulation\n\nNothing here was measured on GPUs: every number is a "
      "plan's simulated step on a profile and a cluster from `data/`. Planned on ",
      report::DescribeMachine(source.machine), " by\n\n    ", source.command_line, "\n\n",
      Maxima(results));
  std::vector<std::string> models;
  std::map<std::string, Cases> by_model;
  for (const CaseResult& c : results) {
    if (by_model[c.model].empty()) models.push_back(c.model);
    by_model[c.model].push_back(&c);
  }
  for (const std::string& model : models) AppendModel(model, by_model[model], source, &report);
  return report;
}

}  // namespace dpipe::bench
