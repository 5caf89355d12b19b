#include "tools/planning/plan_result_text.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "baselines/registry.h"
#include "core/base/bytes.h"
#include "core/command_line/flag_help.h"
#include "core/planner/partition/partitioner.h"
#include "core/report/table.h"
#include "core/schedule/generators.h"
#include "tools/planning/simulation_text.h"

namespace dpipe::tools {
namespace {

using report::Table;

std::string Percent(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

// Two decimals, because step times of candidates differ little.
std::string Millis(Nanos time_ns) {
  return absl::StrFormat("%.2f ms", static_cast<double>(time_ns) / kNanosPerMilli);
}

std::string StageTable(const Plan& plan) {
  Table table({"stage", "chain", "layers", "of", "ranks", ""});
  table.SetAlign(4, Table::Align::kLeft);
  for (const Stage& stage : plan.stages()) {
    std::vector<std::string> notes;
    if (stage.forward_only()) notes.push_back("first lap, no gradients");
    if (stage.recompute_cuts_size() > 0) {
      notes.push_back(absl::StrCat("recomputes in ", stage.recompute_cuts_size() + 1, " blocks"));
    } else if (stage.recompute()) {
      notes.push_back("recomputes");
    }
    if (stage.sharded()) notes.push_back("sharded");
    table.AddRow({absl::StrCat(stage.id()), absl::StrCat(stage.chain()),
                  absl::StrCat(stage.layers().begin(), "-", stage.layers().end() - 1),
                  plan.components(stage.component()).name(),
                  RanksText({stage.ranks().begin(), stage.ranks().end()}),
                  absl::StrJoin(notes, ", ")});
  }
  return table.ToText();
}

// Returns "41.2 GiB of 74.5 GiB on devices 0-3; 38.1 GiB ...", grouping devices with equal memory.
std::string MemoryText(const Plan& plan, const CostModel& cost) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int rank = 0; rank < plan.prediction().peak_memory_bytes_size(); ++rank) {
    std::string text = FormatBytes(plan.prediction().peak_memory_bytes(rank));
    if (cost.MemoryLimitOf(rank) > 0) {
      absl::StrAppend(&text, " of ", FormatBytes(cost.MemoryLimitOf(rank)));
    }
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&text](const auto& group) { return group.first == text; });
    if (same != groups.end()) {
      same->second.push_back(rank);
    } else {
      groups.push_back({text, {rank}});
    }
  }
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : groups) {
    parts.push_back(absl::StrCat(text, " on ", RanksText(ranks)));
  }
  return absl::StrJoin(parts, "\n            ");
}

std::string ScheduleText(const PlanCandidate& candidate) {
  std::string text = candidate.schedule;
  if (candidate.shard != "none") absl::StrAppend(&text, ", ", candidate.shard);
  if (candidate.recompute) text += ", recomputing";
  if (candidate.frozen_hosts > 0) {
    absl::StrAppend(&text, ", large frozen parts on ", candidate.frozen_hosts);
  }
  return text;
}

std::string CandidateTable(const PlanResult& result) {
  Table table({"schedule", "stages", "M", "D", "estimate", "step", "bubbles", "outcome"});
  table.SetAlign(0, Table::Align::kLeft);
  for (const PlanCandidate& candidate : result.candidates) {
    const bool simulated = candidate.step_ns > 0;
    table.AddRow({ScheduleText(candidate), absl::StrCat(candidate.num_stages),
                  absl::StrCat(candidate.num_micro_batches),
                  absl::StrCat(candidate.devices_per_pipeline),
                  candidate.estimate_ns > 0 ? Millis(candidate.estimate_ns) : "-",
                  simulated ? Millis(candidate.step_ns) : "-",
                  simulated ? Percent(candidate.bubble_ratio) : "-", candidate.outcome});
  }
  return table.ToText();
}

// Nothing where the search looked at all that it expected to be better.
std::string BudgetText(const PlanResult& result) {
  if (result.num_left == 0) return "";
  return absl::StrCat("\n            the budget ended before ", result.num_left,
                      " more that may be better: raise --simulation_budget to look further");
}

const char* FamilyName(StrategyFamily family) {
  switch (family) {
    case StrategyFamily::kDataParallel:
      return "data parallel";
    case StrategyFamily::kPipeline:
      return "pipelines";
    case StrategyFamily::kPartitioner:
      return "other partitions";
    case StrategyFamily::kZeroBubble:
      return "zero bubble";
    case StrategyFamily::kBidirectional:
      return "bidirectional";
    case StrategyFamily::kFilling:
      return "bubble filling";
    case StrategyFamily::kCached:
      return "cached";
    case StrategyFamily::kRelaxed:
      return "relaxed";
  }
  return "";
}

}  // namespace

std::string PlanResultText(const PlanResult& result, const CostModel& cost, Nanos planning_ns) {
  const Plan& plan = result.plan;
  const Prediction& prediction = plan.prediction();
  const double bound_ns = static_cast<double>(std::max<int64_t>(1, prediction.lower_bound_ns()));
  const Nanos step_ns = std::max<Nanos>(1, result.expected_step_ns);
  std::string text = PlanHeader(plan, cost);
  absl::StrAppend(&text, "Step:       ", Millis(prediction.step_ns()), " predicted, ",
                  absl::StrFormat("%.3f", static_cast<double>(prediction.step_ns()) / bound_ns),
                  " x the lower bound of ", Millis(prediction.lower_bound_ns()), "\n");
  if (result.self_conditioned_plan.devices_size() > 0) {
    absl::StrAppend(&text, "            ",
                    Millis(result.self_conditioned_plan.prediction().step_ns()),
                    " if the backbone runs twice; ", Millis(step_ns), " on average\n");
  }
  absl::StrAppend(
      &text, "Throughput: ",
      absl::StrFormat("%.1f", plan.global_batch() * (static_cast<double>(kNanosPerSecond) /
                                                     static_cast<double>(step_ns))),
      " samples/s\nBubbles:    ", Percent(prediction.bubble_ratio()), " of device time");
  if (prediction.unfilled_bubble_ratio() > 0) {
    absl::StrAppend(&text, "; ", Percent(prediction.unfilled_bubble_ratio()), " before filling");
  }
  absl::StrAppend(&text, "\nMemory:     ", MemoryText(plan, cost),
                  "\nPlanning:   ", FormatDuration(planning_ns), ", ", result.num_considered,
                  " choices considered, ", result.num_simulated, " simulated", BudgetText(result),
                  "\n\n", StageTable(plan), "\n", CandidateTable(result));
  return text;
}

std::string ListText() {
  std::string text = "Strategies (--strategy=NAME, or NAME,key=value,... for a variation):\n";
  Table table({"name", "family", "description"});
  for (const NamedStrategy& named : NamedStrategies()) {
    table.AddRow({named.strategy.name(), FamilyName(named.family), named.summary});
  }
  absl::StrAppend(
      &text, "\n", table.ToText(), "\nCompositions (--strategy=key=value,...):\n",
      WrapWords("  schedule=", /*indent=*/16,
                absl::StrCat(absl::StrJoin(ScheduleNames(), ", "),
                             "; alternatives as a|b, each with a partitioner or "
                             "sharding of its own as wave/skip_aware")),
      WrapWords("  partitioner=", /*indent=*/16, absl::StrJoin(PartitionerNames(), ", ")),
      "  frozen=       first, first_stage, fill, cached\n"
      "  sync=         bucketed, end\n"
      "  recompute=    none, full, auto\n"
      "  shard=        none, zero1, zero3; alternatives as a|b\n"
      "  compress=     none, l-greco, cupcake\n"
      "  weights=      exact, stashed, predicted; with update_every=, sync_every=\n"
      "  partial_batch=, cross_iteration=, even_samples=, one_partial=, tune=  true, "
      "false\n"
      "  fill_rule=    own, published; with min_bubble_us=, local_batches=4|8 "
      "(published)\n                and fill_walks= (own)\n");
  return text;
}

}  // namespace dpipe::tools
