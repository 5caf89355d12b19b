#include "core/runtime/overhead_clock.h"

#include <algorithm>

namespace dpipe {

class OverheadClock::MeteredRank : public RankClock {
 public:
  Nanos Now() override { return mark_ns_ = MonotonicNow(); }

  void Reach(const Plan& plan, int instruction, int64_t step) override {
    ++so_far_.num_instructions;
  }

  void FinishComputation(Nanos start_ns) override { FinishPart(); }
  void FinishPart() override { so_far_.compute_ns += MonotonicNow() - mark_ns_; }

  void Begin() { begin_ns_ = MonotonicNow(); }
  void End() {
    total_ns_ += MonotonicNow() - begin_ns_;
    so_far_.overhead_ns = total_ns_ - so_far_.compute_ns - so_far_.waiting_ns;
  }
  void Waited(Nanos begin_ns, Nanos ready_ns, Nanos end_ns) {
    const Nanos could_go_on_ns = std::clamp(ready_ns, begin_ns, end_ns);
    so_far_.waiting_ns += could_go_on_ns - begin_ns;
    so_far_.wake_up_ns += end_ns - could_go_on_ns;
  }
  const RuntimeOverhead& overhead() const { return so_far_; }

 private:
  RuntimeOverhead so_far_;
  Nanos begin_ns_ = 0;  // of this run
  Nanos total_ns_ = 0;
  Nanos mark_ns_ = 0;  // time of the last call of Now()
};

OverheadClock::OverheadClock(int num_ranks) {
  for (int r = 0; r < num_ranks; ++r) ranks_.push_back(std::make_unique<MeteredRank>());
}

OverheadClock::~OverheadClock() = default;

RankClock* OverheadClock::rank(int rank) { return ranks_[rank].get(); }

void OverheadClock::BeginRank(int rank) { ranks_[rank]->Begin(); }

void OverheadClock::EndRank(int rank) { ranks_[rank]->End(); }

void OverheadClock::Waited(Rank rank, Nanos begin_ns, Nanos ready_ns, Nanos end_ns) {
  ranks_[rank.value()]->Waited(begin_ns, ready_ns, end_ns);
}

std::vector<RuntimeOverhead> OverheadClock::overheads() const {
  std::vector<RuntimeOverhead> overheads;
  for (const auto& rank : ranks_) overheads.push_back(rank->overhead());
  return overheads;
}

}  // namespace dpipe
