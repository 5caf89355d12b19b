#include "bench/emulation/emulation_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/table.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {
namespace {

std::string Percent(double ratio) { return absl::StrFormat("%.3f %%", 100 * ratio); }

std::string Milliseconds(Nanos ns) {
  return absl::StrFormat("%.2f", static_cast<double>(ns) / kNanosPerMilli);
}

std::string ClusterTable(const std::vector<EmulationResult>& results) {
  report::Table table({"strategy", "plan", "instructions", "simulated ms", "emulated ms",
                       "difference", "bubbles simulated", "emulated", "losses",
                       "largest difference"});
  for (const EmulationResult& r : results) {
    if (!r.ran()) continue;
    table.AddRow({r.strategy,
                  absl::StrCat(r.num_stages, " x ", r.num_micro_batches, " x ", r.micro_batch_size),
                  absl::StrCat(r.num_instructions), Milliseconds(r.simulated_step_ns),
                  Milliseconds(r.emulated_step_ns), Percent(r.difference()),
                  Percent(r.simulated_bubble_ratio), Percent(r.emulated_bubble_ratio),
                  r.valid() ? "right" : "WRONG", r.worst});
  }
  std::string text = table.ToMarkdown();
  for (const EmulationResult& r : results) {
    if (!r.ran()) absl::StrAppend(&text, "\n- no plan of ", r.strategy, ": ", r.refusal);
  }
  return absl::StrCat(text, "\n");
}

std::string SummaryRow(const EmulationSummary& summary) {
  std::string text =
      absl::StrCat(summary.num_run, " plans, difference of the step ", Percent(summary.median),
                   " in the median, ", Percent(summary.worst), " at worst");
  if (summary.worst_result != nullptr) {
    const EmulationResult& worst = *summary.worst_result;
    absl::StrAppend(&text, " (", worst.strategy, ", ", worst.model, ", ", worst.num_devices,
                    " devices: first difference at ", worst.first, ")");
  }
  if (summary.num_invalid > 0) {
    absl::StrAppend(&text, "; ", summary.num_invalid, " with WRONG losses");
  }
  return text;
}

// Groups results by model and cluster, in the order of first appearance.
std::vector<std::pair<std::string, std::vector<EmulationResult>>> Sections(
    const std::vector<EmulationResult>& results) {
  std::vector<std::pair<std::string, std::vector<EmulationResult>>> sections;
  for (const EmulationResult& r : results) {
    const std::string title = absl::StrCat(r.model, " on ", r.cluster, ", ", r.num_devices,
                                           " devices, batch ", r.global_batch);
    if (sections.empty() || sections.back().first != title) sections.push_back({title, {}});
    sections.back().second.push_back(r);
  }
  return sections;
}

}  // namespace

EmulationSummary Summarize(const std::vector<EmulationResult>& results) {
  EmulationSummary summary;
  std::vector<double> differences;
  for (const EmulationResult& r : results) {
    if (!r.ran()) continue;
    ++summary.num_run;
    summary.num_invalid += r.valid() ? 0 : 1;
    differences.push_back(std::abs(r.difference()));
    if (summary.worst_result == nullptr || differences.back() > summary.worst) {
      summary.worst = differences.back();
      summary.worst_result = &r;
    }
  }
  if (differences.empty()) return summary;
  std::sort(differences.begin(), differences.end());
  const size_t middle = differences.size() / 2;
  summary.median = differences.size() % 2 == 1
                       ? differences[middle]
                       : (differences[middle - 1] + differences[middle]) / 2;
  return summary;
}

std::string EmulationMarkdown(const EmulationReport& report) {
  std::string text = absl::StrCat(
      "# Simulator against emulation\n\nEvery plan is run by the real runtime, with one thread per "
      "rank, on emulated devices (core/emulation). This compares the simulator's order of work, "
      "waiting and contention with the runtime's own. Computations take the profile's times and "
      "messages the cluster's in both; ",
      report.options.clock.charge_host_time
          ? "the interpreter's own work counts as the ranks' time in the emulation, as "
            "measured.\n\n"
          : "the interpreter's own work takes no time.\n\n",
      "Plans are stages x micro-batches x micro-batch size. Losses are right if they equal those "
      "of the same model trained without plan or runtime.\n\n- ",
      report.date, ", ", report::DescribeMachine(report.machine), "\n- `", report.command_line,
      "`\n\n**All: ", SummaryRow(Summarize(report.results)), ".**\n");
  for (const auto& [title, results] : Sections(report.results)) {
    absl::StrAppend(&text, "\n## ", title, "\n\n", SummaryRow(Summarize(results)), ".\n\n",
                    ClusterTable(results));
  }
  return text;
}

std::string EmulationJson(const EmulationReport& report) {
  nlohmann::json json = {{"format", "dpipe.emulation"},
                         {"format_version", 1},
                         {"date", report.date},
                         {"command_line", report.command_line},
                         {"machine", report::DescribeMachine(report.machine)},
                         {"time_scale", report.options.clock.time_scale},
                         {"charge_host_time", report.options.clock.charge_host_time},
                         {"steps", report.options.num_steps}};
  for (const EmulationResult& r : report.results) {
    nlohmann::json row = {{"model", r.model},
                          {"cluster", r.cluster},
                          {"devices", r.num_devices},
                          {"global_batch", r.global_batch},
                          {"strategy", r.strategy}};
    if (!r.ran()) {
      row["refusal"] = r.refusal;
    } else {
      row.update({{"stages", r.num_stages},
                  {"micro_batches", r.num_micro_batches},
                  {"micro_batch_size", r.micro_batch_size},
                  {"instructions", r.num_instructions},
                  {"simulated_step_ns", r.simulated_step_ns},
                  {"emulated_step_ns", r.emulated_step_ns},
                  {"difference", r.difference()},
                  {"simulated_bubble_ratio", r.simulated_bubble_ratio},
                  {"emulated_bubble_ratio", r.emulated_bubble_ratio},
                  {"loss_error", r.loss_error},
                  {"worst_instruction", r.worst},
                  {"first_instruction", r.first},
                  {"virtual_ns", r.virtual_ns},
                  {"real_ns", r.real_ns},
                  {"worst_late_ns", r.worst_late_ns}});
    }
    json["results"].push_back(std::move(row));
  }
  return absl::StrCat(json.dump(1), "\n");
}

}  // namespace dpipe::bench
