#include "core/planner/fill/idle_intervals.h"

#include <algorithm>
#include <utility>

namespace dpipe {
namespace {

// Allowance for rounding up by 1 ns per instruction; no relevant gap has more instructions.
constexpr Nanos kRoundingNs = 64;

// Returns, by rank and in list order, the last compute event of step 0 and then those of step 1.
std::vector<std::vector<StreamEvent>> EventsByRank(const Plan& plan,
                                                   const std::vector<StreamEvent>& events) {
  const auto place = [](const StreamEvent& e) { return std::make_pair(e.step, e.instruction); };
  std::vector<std::vector<StreamEvent>> by_rank(plan.devices_size());
  std::vector<StreamEvent> last(plan.devices_size());
  for (StreamEvent& before : last) before.step = -1;
  for (const StreamEvent& event : events) {
    if (event.stream != TraceEvent::COMPUTE) continue;
    if (event.step == 1) by_rank[event.rank].push_back(event);
    StreamEvent& before = last[event.rank];
    if (event.step == 0 && place(before) < place(event)) before = event;
  }
  for (int r = 0; r < plan.devices_size(); ++r) {
    std::sort(by_rank[r].begin(), by_rank[r].end(),
              [&](const StreamEvent& a, const StreamEvent& b) { return place(a) < place(b); });
    if (last[r].step == 0) by_rank[r].insert(by_rank[r].begin(), last[r]);
  }
  return by_rank;
}

}  // namespace

std::vector<std::vector<IdleInterval>> IdleIntervals(const Plan& plan,
                                                     const std::vector<StreamEvent>& events) {
  std::vector<std::vector<IdleInterval>> idle(plan.devices_size());
  const std::vector<std::vector<StreamEvent>> by_rank = EventsByRank(plan, events);
  for (int r = 0; r < plan.devices_size(); ++r) {
    for (size_t i = 1; i < by_rank[r].size(); ++i) {
      const StreamEvent& event = by_rank[r][i];
      const IdleInterval interval{by_rank[r][i - 1].end_ns, event.start_ns, event.instruction};
      const bool is_last =
          plan.devices(r).instructions(event.instruction).kind() == Instruction::OPTIMIZER_STEP;
      if (is_last || interval.length_ns() > 0) idle[r].push_back(interval);
      if (is_last) break;
    }
  }
  return idle;
}

Nanos GapScale::operator()(Nanos length_ns) const {
  if (usable == 1 && speed == 1) return length_ns;
  const double ns = static_cast<double>(length_ns - rounding_ns) * usable * speed;
  return std::max<Nanos>(0, static_cast<Nanos>(ns));
}

GapScale ScaleOfRank(const CostModel& cost, double margin, int rank) {
  GapScale scale;
  scale.usable = (1 - margin) / std::max(1.0, cost.cluster().contention_factor());
  scale.speed = cost.SpeedOf(rank);
  scale.rounding_ns = scale.speed == 1 ? 0 : kRoundingNs;
  return scale;
}

}  // namespace dpipe
