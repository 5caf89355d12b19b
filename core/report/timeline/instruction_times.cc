#include "core/report/timeline/instruction_times.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/time.h"
#include "core/proto/instruction_parts.h"
#include "core/report/statistics/stats.h"

namespace dpipe::report {
namespace {

constexpr char kWaiting[] = "waiting";

}  // namespace

absl::Status WorkTimes::Add(const Trace& trace, StepWindow steps) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  using Key = std::pair<int, std::string>;
  std::map<Key, std::vector<Nanos>> times;  // by step
  std::map<Key, std::set<int>> instructions;
  const auto time = [&](const Key& key, int step) -> Nanos& {
    std::vector<Nanos>& of_key = times[key];
    of_key.resize(steps.num_steps);
    return of_key[step - steps.first_step];
  };
  for (int step = steps.first_step; step < steps.first_step + steps.num_steps; ++step) {
    for (int device = 0; device < index.num_devices(); ++device) {
      time({device, kWaiting}, step) += index.StepEnd(step) - index.StepStart(step);
    }
  }
  for (const TraceIndex::Event& item : index.events()) {
    const TraceEvent& event = *item.event;
    if (event.step() < steps.first_step || event.step() >= steps.first_step + steps.num_steps ||
        event.stream() != TraceEvent::COMPUTE || !IsBusy(item.instruction->kind())) {
      continue;
    }
    const Key key(event.rank(), DescribeWork(index.plan(), *item.instruction));
    const Nanos took_ns = event.end_ns() - event.start_ns();
    time(key, event.step()) += took_ns;
    time({event.rank(), kWaiting}, event.step()) -= took_ns;
    instructions[key].insert(event.instruction());
  }
  for (const auto& [key, of_key] : times) {
    Samples& samples = by_device_and_work_[key];
    samples.per_step = static_cast<int>(instructions[key].size());
    for (Nanos took_ns : of_key) {
      samples.ms.push_back(static_cast<double>(took_ns) / kNanosPerMilli);
    }
  }
  return absl::OkStatus();
}

std::vector<InstructionTimes> CompareTimes(const WorkTimes& measured, const WorkTimes& predicted) {
  std::vector<InstructionTimes> times;
  for (const auto& [key, samples] : measured.by_device_and_work_) {
    const auto found = predicted.by_device_and_work_.find(key);
    if (found == predicted.by_device_and_work_.end()) continue;
    InstructionTimes& one = times.emplace_back();
    one.set_work(key.second);
    one.set_device(key.first);
    one.set_per_step(samples.per_step);
    one.set_measured_ms(Median(samples.ms));
    one.set_predicted_ms(Median(found->second.ms));
  }
  const auto rank = [](const InstructionTimes& one) {
    return std::pair(one.per_step() == 0, one.per_step() == 0 ? 0 : -std::abs(DifferenceMs(one)));
  };
  std::stable_sort(times.begin(), times.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return times;
}

std::string LargestDeviationText(const std::vector<InstructionTimes>& times) {
  if (times.empty() || times[0].per_step() == 0) return "";
  const InstructionTimes& largest = times[0];
  std::string text = absl::StrCat("largest deviation: ", largest.work(), " on device ",
                                  largest.device(), " (", largest.per_step(), " per step): ",
                                  absl::StrFormat("%.1f ms per step, predicted %.1f",
                                                  largest.measured_ms(), largest.predicted_ms()));
  if (largest.predicted_ms() > 0) {
    absl::StrAppendFormat(&text, " (%+.1f %%)",
                          100 * DifferenceMs(largest) / largest.predicted_ms());
  }
  return text;
}

}  // namespace dpipe::report
