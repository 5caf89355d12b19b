#include "tools/planning/simulation_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/report/table.h"
#include "core/report/timeline/bubbles.h"
#include "core/sim/lower_bound.h"

namespace dpipe::tools {
namespace {

using report::DeviceTime;
using report::Table;
using report::TraceIndex;

std::string Percent(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

std::string Millis(Nanos time_ns) {
  return absl::StrFormat("%.2f ms", static_cast<double>(time_ns) / kNanosPerMilli);
}

std::string Duration(double duration_ns) { return FormatDuration(static_cast<Nanos>(duration_ns)); }

std::vector<std::string> StagesByRank(const Plan& plan, int num_ranks) {
  std::vector<std::vector<int>> stages(num_ranks);
  for (const Stage& stage : plan.stages()) {
    for (int rank : stage.ranks()) stages[rank].push_back(stage.id());
  }
  std::vector<std::string> texts;
  for (const std::vector<int>& of_rank : stages) texts.push_back(absl::StrJoin(of_rank, ", "));
  return texts;
}

// Returns the kind of work that an event on the critical path counts as.
std::string WorkName(const Plan& plan, const Instruction& instruction) {
  switch (instruction.kind()) {
    case Instruction::FORWARD:
      return "forward";
    case Instruction::RECOMPUTE:
      return "recomputation";
    case Instruction::BACKWARD:
      return "backward";
    case Instruction::INPUT_GRAD:
      return "input gradients";
    case Instruction::WEIGHT_GRAD:
      return "weight gradients";
    case Instruction::FROZEN_FORWARD:
      return absl::StrCat(plan.components(instruction.component()).name(), " (frozen)");
    case Instruction::LOAD_BATCH:
      return "loading";
    case Instruction::SEND:
    case Instruction::RECV:
      return "message";
    case Instruction::REDUCE_GRADS:
      return "gradient sync";
    case Instruction::GATHER_PARAMS:
      return "gathering parameters";
    case Instruction::OPTIMIZER_STEP:
      return "optimizer";
    default:
      return "waiting for all devices";
  }
}

// Messages of one link, or of all links that share an interface.
struct Traffic {
  int64_t bytes = 0;
  Nanos busy_ns = 0;
  int messages = 0;

  void Add(const TraceIndex::Event& item) {
    bytes += item.instruction->bytes();
    busy_ns += item.event->end_ns() - item.event->start_ns();
    ++messages;
  }
};

using NamedTraffic = std::pair<std::string, Traffic>;

// Appends the `max_rows` busiest; items with equal numbers share a row.
void AppendBusiest(std::vector<NamedTraffic> all, int max_rows, double steps, double step_ns,
                   Table* table) {
  std::stable_sort(all.begin(), all.end(), [](const NamedTraffic& a, const NamedTraffic& b) {
    return a.second.busy_ns > b.second.busy_ns;
  });
  std::vector<std::vector<std::string>> rows;
  std::vector<int> alike;
  for (const auto& [name, traffic] : all) {
    const double busy_ns = static_cast<double>(traffic.busy_ns) / steps;
    std::vector<std::string> row = {
        name, absl::StrFormat("%.0f", traffic.messages / steps),
        FormatBytes(static_cast<int64_t>(static_cast<double>(traffic.bytes) / steps)),
        Duration(busy_ns), Percent(busy_ns / step_ns)};
    const bool equal =
        !rows.empty() && std::equal(row.begin() + 1, row.end(), rows.back().begin() + 1);
    if (equal) {
      ++alike.back();
      continue;
    }
    if (static_cast<int>(rows.size()) == max_rows) break;
    rows.push_back(std::move(row));
    alike.push_back(0);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (alike[i] > 0) absl::StrAppend(&rows[i][0], " and ", alike[i], " like it");
    table->AddRow(std::move(rows[i]));
  }
}

bool InWindow(const TraceEvent& event, const report::StepWindow& window) {
  return event.step() >= window.first_step && event.step() < window.first_step + window.num_steps;
}

}  // namespace

std::string RanksText(const std::vector<int>& ranks, size_t max_ranges) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? absl::StrCat(ranks[i])
                                  : absl::StrCat(ranks[i], "-", ranks[end - 1]));
    i = end;
  }
  if (ranges.size() <= max_ranges) return absl::StrJoin(ranges, ", ");
  ranges.resize(max_ranges - 1);
  return absl::StrCat(absl::StrJoin(ranges, ", "), ", ... (", ranks.size(), ")");
}

std::string PlanHeader(const Plan& plan, const CostModel& cost) {
  const int group = std::max(1, plan.devices_per_pipeline());
  std::string text = absl::StrCat("Plan:       ", plan.strategy(), " for ", plan.model(), " on ",
                                  cost.cluster().name(), ", ", plan.num_devices(),
                                  " devices, global batch ", plan.global_batch(), "\n");
  absl::StrAppend(&text, "Pipeline:   ", plan.num_devices() / group, " group(s) of ", group,
                  " devices, ", plan.stages_size(), " stages, ", plan.num_micro_batches(),
                  " micro-batches of ", plan.micro_batch_size(), "\n");
  if (cost.cluster().num_nodes() > 1) {
    absl::StrAppend(&text, "Sums:       priced as ",
                    cost.cluster().collectives() == ClusterSpec::NCCL
                        ? "NCCL's ring and tree, which the runtime does not use\n"
                        : "the runtime's own, exact and in rank order\n");
  }
  return text;
}

std::string DeviceTable(const TraceIndex& index, const CostModel& cost) {
  constexpr BubbleReason kReasons[] = {WARM_UP, STEADY, COOL_DOWN, GRADIENT_SYNC, OPTIMIZER};
  const std::vector<DeviceTime> devices = report::DeviceTimes(index, index.SteadySteps());
  const std::vector<std::string> stages = StagesByRank(index.plan(), index.num_devices());
  const auto& peaks = index.trace().peak_memory_bytes();
  const bool has_memory = std::any_of(peaks.begin(), peaks.end(), [](int64_t b) { return b > 0; });
  std::vector<std::pair<std::vector<std::string>, std::vector<int>>> rows;
  for (int rank = 0; rank < index.num_devices(); ++rank) {
    const DeviceTime& device = devices[rank];
    std::vector<std::string> cells = {stages[rank], Percent(device.BusyNs() / device.step_ns)};
    for (BubbleReason reason : kReasons) {
      cells.push_back(Percent(device.idle_ns[reason] / device.step_ns));
    }
    if (has_memory) {
      cells.push_back(rank < peaks.size() ? FormatBytes(peaks[rank]) : "-");
      const int64_t limit = rank < cost.num_devices() ? cost.MemoryLimitOf(rank) : 0;
      cells.push_back(limit > 0 ? FormatBytes(limit) : "-");
    }
    const auto same = std::find_if(rows.begin(), rows.end(),
                                   [&cells](const auto& row) { return row.first == cells; });
    if (same != rows.end()) {
      same->second.push_back(rank);
    } else {
      rows.push_back({cells, {rank}});
    }
  }
  std::vector<std::string> titles = {"device", "stages",    "busy", "warm-up",
                                     "steady", "cool-down", "sync", "optimizer"};
  if (has_memory) titles.insert(titles.end(), {"peak memory", "of"});
  Table table(titles);
  table.SetAlign(0, Table::Align::kLeft);
  table.SetAlign(1, Table::Align::kLeft);
  for (const auto& [cells, ranks] : rows) {
    std::vector<std::string> row = {RanksText(ranks)};
    row.insert(row.end(), cells.begin(), cells.end());
    table.AddRow(std::move(row));
  }
  return table.ToText();
}

std::string CriticalPathTable(const TraceIndex& index, int max_rows) {
  struct Share {
    Nanos time_ns = 0;
    int events = 0;
  };
  std::map<std::string, Share> shares;
  Nanos total_ns = 0;
  const auto add = [&](const std::string& name, Nanos time_ns) {
    if (time_ns == 0) return;
    Share& share = shares[name];
    share.time_ns += time_ns;
    ++share.events;
    total_ns += time_ns;
  };
  for (const TraceIndex::CriticalEvent& link : index.critical_path()) {
    const Instruction& instruction = *link.item.instruction;
    add("global norm and flushes", link.wait_ns);
    add(absl::StrCat(WorkName(index.plan(), instruction), " on device ", link.item.event->rank()),
        link.item.event->end_ns() - link.item.event->start_ns());
  }
  if (total_ns == 0) return "";
  std::vector<std::pair<std::string, Share>> sorted(shares.begin(), shares.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.time_ns > b.second.time_ns;
  });
  Table table({"on the critical path", "events", "time", "share"});
  const auto add_row = [&](const std::string& name, const Share& share) {
    table.AddRow({name, absl::StrCat(share.events), FormatDuration(share.time_ns),
                  Percent(static_cast<double>(share.time_ns) / static_cast<double>(total_ns))});
  };
  Share rest;
  for (int i = 0; i < static_cast<int>(sorted.size()); ++i) {
    if (i < max_rows) {
      add_row(sorted[i].first, sorted[i].second);
    } else {
      rest.time_ns += sorted[i].second.time_ns;
      rest.events += sorted[i].second.events;
    }
  }
  if (rest.events > 0) add_row("the rest", rest);
  return table.ToText();
}

std::string TrafficTable(const TraceIndex& index, const CostModel& cost, int max_rows) {
  const report::StepWindow window = index.SteadySteps();
  if (window.num_steps == 0) return "";
  std::map<std::pair<int, int>, Traffic> links;
  std::map<int, Traffic> shared;  // by shared link
  std::map<int, Traffic> collectives;
  for (const TraceIndex::Event& item : index.events()) {
    if (!InWindow(*item.event, window)) continue;
    const int from = item.event->rank(), to = item.instruction->peer();
    const Instruction::Kind kind = item.instruction->kind();
    if (kind == Instruction::REDUCE_GRADS || kind == Instruction::GATHER_PARAMS) {
      collectives[from].Add(item);
    }
    if (kind != Instruction::SEND) continue;
    links[{from, to}].Add(item);
    for (int link : cost.shared_links().OnPath(from, to)) shared[link].Add(item);
  }
  if (links.empty() && collectives.empty()) return "";
  const auto [first, count] = std::pair(window.first_step, window.num_steps);
  const double step_ns =
      static_cast<double>(index.StepEnd(first + count - 1) - index.StepStart(first)) / count;
  Table table({"traffic per step", "messages", "bytes", "busy", "share of step"});
  std::vector<NamedTraffic> named;
  for (const auto& [link, traffic] : links) {
    named.push_back({absl::StrCat("link ", link.first, " -> ", link.second), traffic});
  }
  AppendBusiest(std::move(named), max_rows, count, step_ns, &table);
  for (const bool outgoing : {true, false}) {
    named.clear();
    for (const auto& [link, traffic] : shared) {
      const std::string name = cost.shared_links().NameOf(link);
      if (absl::EndsWith(name, " out") != outgoing) continue;
      named.push_back({absl::StrCat(name, " (messages)"), traffic});
    }
    AppendBusiest(std::move(named), max_rows, count, step_ns, &table);
  }
  named.clear();
  for (const auto& [rank, traffic] : collectives) {
    named.push_back({absl::StrCat("collectives of device ", rank), traffic});
  }
  AppendBusiest(std::move(named), std::min(max_rows, 4), count, step_ns, &table);
  return table.ToText();
}

absl::StatusOr<std::string> SimulationText(const Trace& trace, const CostModel& cost, Nanos step_ns,
                                           double bubble_ratio) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  const Plan& plan = trace.plan();
  const Nanos bound_ns = StepLowerBound(plan, cost).bound_ns;
  const double seconds = static_cast<double>(step_ns) / kNanosPerSecond;
  std::string text = PlanHeader(plan, cost);
  absl::StrAppend(&text, "Step:       ", Millis(step_ns), ", ",
                  absl::StrFormat("%.1f", plan.global_batch() / seconds), " samples/s; ",
                  absl::StrFormat("%.3f", static_cast<double>(step_ns) /
                                              static_cast<double>(std::max<Nanos>(1, bound_ns))),
                  " x the lower bound of ", Millis(bound_ns),
                  "\nBubbles:    ", Percent(bubble_ratio), " of device time");
  if (plan.prediction().unfilled_bubble_ratio() > 0) {
    absl::StrAppend(&text, "; ", Percent(plan.prediction().unfilled_bubble_ratio()),
                    " before filling");
  }
  absl::StrAppend(&text, "\n\n", DeviceTable(index, cost));
  for (const std::string& table : {CriticalPathTable(index, 8), TrafficTable(index, cost, 6)}) {
    if (!table.empty()) absl::StrAppend(&text, "\n", table);
  }
  return text;
}

}  // namespace dpipe::tools
