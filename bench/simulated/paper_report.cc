#include "bench/simulated/paper_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/simulated/paper_section.h"
#include "bench/simulated/win_map.h"
#include "core/report/markup.h"

namespace dpipe::bench {
namespace {

using report::PercentText;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string MillisecondsText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.1f", value) : "-";
}

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
                               "Images per second of the whole cluster, simulated.", "images/s");
  section.per_device = true;
  section.text = RateText;
  for (const Outcome& outcome : cases[0]->outcomes) {
    const std::string label = outcome.label;
    section.columns.push_back(
        {label, [label](const GridResult& c) { return RateOf(c.Find(label)); }});
  }
  return section;
}

Section Speedups(const std::string& ours) {
  Section section = NewSection(
      "speedups_" + ours, "Speedups of " + ours,
      "Simulated throughput over that of each rival's own best plan. The best pipelines are "
      "those without filling; chimera holds every layer twice and is excluded from those of one "
      "copy.",
      "x");
  section.text = RatioText;
  for (const std::string rival : {"data_parallel", "zero1", "zero3", "gpipe", "spp"}) {
    section.columns.push_back({"over " + rival, [ours, rival](const GridResult& c) {
                                 return Speedup(c.Find(ours), c.Find(rival));
                               }});
  }
  for (const bool two_copies : {false, true}) {
    const std::string name = two_copies ? "over the best pipeline" : "over the best of one copy";
    section.columns.push_back({name, [ours, two_copies](const GridResult& c) {
                                 return Speedup(c.Find(ours), BestUnfilled(c, two_copies));
                               }});
  }
  section.references = {
      {"published: up to 1.41x over pipelines", kPublishedPipelineSpeedup},
      {"published: up to 1.28x over data parallelism", kPublishedDataParallelSpeedup}};
  section.remark_name = "best of one copy; best pipeline";
  section.remark = [](const GridResult& c) -> std::string {
    const auto label = [&](bool two_copies) -> std::string {
      const Outcome* pipeline = BestUnfilled(c, two_copies);
      return pipeline == nullptr ? "-" : pipeline->label;
    };
    return absl::StrCat(label(false), "; ", label(true));
  };
  return section;
}

Section Bubbles() {
  Section section = NewSection(
      "bubbles", "Bubbles",
      "Idle compute time over devices x step, steady state: of the same schedule before filling, "
      "and filled. The published bound is for the paper's runs.",
      "%");
  section.scale = 100;
  section.text = PercentText;
  for (const std::string ours : {kPlain, kCombined}) {
    section.columns.push_back({ours + " before", [ours](const GridResult& c) {
                                 const Outcome* found = c.Find(ours);
                                 const bool filled =
                                     found != nullptr && found->unfilled_bubble_ratio > 0;
                                 return filled ? found->unfilled_bubble_ratio : kNone;
                               }});
    section.columns.push_back({ours + " after", [ours](const GridResult& c) {
                                 const Outcome* found = c.Find(ours);
                                 return found == nullptr ? kNone : found->bubble_ratio;
                               }});
  }
  section.references = {{"published: below 5 %", 100 * kPublishedBubbleRatio}};
  section.remark_name = "step / bound and plan of diffusionpipe; of opendiffusionpipe";
  section.remark = [](const GridResult& c) {
    const auto text = [&](const char* label) -> std::string {
      const Outcome* found = c.Find(label);
      if (found == nullptr) return "-";
      return absl::StrFormat("%.3f %s", OverBound(found), ShapeText(found));
    };
    return absl::StrCat(text(kPlain), "; ", text(kCombined));
  };
  return section;
}

Section Ablations(const Cases& cases) {
  Section section = NewSection(
      "ablations", "Ablations",
      "Throughput of diffusionpipe with a part removed or changed, over diffusionpipe's; on one "
      "node. An offline cache must be filled first, and needs storage for every sample.",
      "x");
  section.text = RatioText;
  for (size_t i = 0; i < cases[0]->ablations.size(); ++i) {
    section.columns.push_back({cases[0]->ablations[i].label, [i](const GridResult& c) {
                                 const Outcome& outcome = c.ablations[i];
                                 return outcome.planned() ? Speedup(&outcome, c.Find(kPlain))
                                                          : kNone;
                               }});
  }
  return section;
}

Section PlanningTime(const Cases& cases) {
  Section section = NewSection(
      "planning", "Planning time",
      "Processor time of the whole search in milliseconds, on one core of the machine named "
      "above.",
      "ms");
  section.origin = "measured on one core, planning for simulated clusters";
  section.text = MillisecondsText;
  for (const Outcome& outcome : cases[0]->outcomes) {
    const std::string label = outcome.label;
    section.columns.push_back({label, [label](const GridResult& c) {
                                 const Outcome* found = c.Find(label);
                                 return found == nullptr ? kNone
                                                         : static_cast<double>(found->planning_ns) /
                                                               kNanosPerMilli;
                               }});
  }
  return section;
}

// Lists each reason once, with the first case that it occurred in.
std::string Refusals(const Cases& cases) {
  std::set<std::string> seen;
  std::string text;
  for (const GridResult* c : cases) {
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
       {Throughput(cases), Speedups(kPlain), Speedups(kCombined), Bubbles(), PlanningTime(cases)}) {
    AppendSection(section, model, cases, out);
  }
  Cases ablated;
  for (const GridResult* c : cases) {
    if (!c->ablations.empty()) ablated.push_back(c);
  }
  if (!ablated.empty()) AppendSection(Ablations(ablated), model, ablated, out);
  out->markdown += Refusals(cases);
}

bool IsOfCombinedGrid(const GridResult& c) {
  return c.ablations.empty() && c.outcomes.size() == 2 && c.outcomes[0].label == kPlain &&
         c.outcomes[1].label == kCombined;
}

// Groups cases by model, in the order of first appearance.
std::vector<std::pair<std::string, Cases>> ByModel(const Cases& cases) {
  std::vector<std::pair<std::string, Cases>> by_model;
  for (const GridResult* c : cases) {
    auto at = std::find_if(by_model.begin(), by_model.end(),
                           [&](const auto& entry) { return entry.first == c->model; });
    if (at == by_model.end()) at = by_model.insert(by_model.end(), {c->model, {}});
    at->second.push_back(c);
  }
  return by_model;
}

}  // namespace

PaperReport MakePaperReport(const std::vector<GridResult>& results, const ReportSource& source) {
  PaperReport report;
  Cases comparison, combined, maps;
  for (const GridResult& c : results) {
    (!c.chapter.empty() ? maps : IsOfCombinedGrid(c) ? combined : comparison).push_back(&c);
  }
  report.markdown = absl::StrCat(
      "# Strategies compared by simulation\n\nNothing here was measured on GPUs: every number is a "
      "plan's simulated step on a modelled profile and a cluster from `data/`. Planned on ",
      report::DescribeMachine(source.machine), source.date.empty() ? "" : ", " + source.date,
      ", by\n\n    ", source.command_line, "\n");
  if (!comparison.empty() || maps.empty()) report.markdown += SummaryText(comparison);
  AppendMapChapter(LinkSpeedChapter(), maps, &report);
  AppendMapChapter(FineTuningChapter(), maps, &report);
  AppendCombinedGrid(ByModel(combined), &report);
  for (const auto& [model, cases] : ByModel(comparison)) {
    AppendModel(model, cases, source, &report);
  }
  return report;
}

}  // namespace dpipe::bench
