#include "core/planner/fill/chain_progress.h"

namespace dpipe {

// Of a step from here on in one go with those before it.
Nanos ChainProgress::StepTime(int step) const {
  const int left = step == step_ ? num_units_ - done_units_ : num_units_;
  const bool starts_instruction = chain_->steps[step].new_instruction || step == step_ ||
                                  (step == step_ + 1 && done_units_ > 0);
  return chain_->step_ns[step][left] + (starts_instruction ? overhead_ns_ : 0);
}

std::vector<Nanos> ChainProgress::FullBatchTimes(Nanos limit) const {
  std::vector<Nanos> times = {0};
  for (int step = step_; step < num_steps(); ++step) {
    const Nanos ns = StepTime(step);
    if (times.back() + ns > limit) break;
    times.push_back(times.back() + ns);
  }
  return times;
}

Nanos ChainProgress::RestTime() const {
  Nanos sum = 0;
  for (int step = step_; step < num_steps(); ++step) sum += StepTime(step);
  return sum;
}

void ChainProgress::Advance(int count, int gap, std::vector<Placement>& out) {
  if (count > 0 && done_units_ > 0) {
    out.push_back({gap, index_, step_, step_ + 1, done_units_, num_units_});
    done_units_ = 0;
    ++step_;
    --count;
  }
  if (count > 0) {
    out.push_back({gap, index_, step_, step_ + count, 0, num_units_});
    step_ += count;
  }
}

int ChainProgress::PartialUnits(Nanos room, double worth) const {
  if (done()) return 0;
  const std::vector<Nanos>& ns = chain_->step_ns[step_];
  const int left = num_units_ - done_units_;
  int units = left - 1;
  while (units > 0 && ns[units] + overhead_ns_ > room) --units;
  if (units == 0) return 0;
  const Nanos saved_later = ns[left] - ns[left - units];
  return static_cast<double>(saved_later) >= worth * static_cast<double>(ns[units] + overhead_ns_)
             ? units
             : 0;
}

void ChainProgress::AdvancePartially(int units, int gap, std::vector<Placement>& out) {
  out.push_back({gap, index_, step_, step_ + 1, done_units_, done_units_ + units});
  done_units_ += units;
}

}  // namespace dpipe
