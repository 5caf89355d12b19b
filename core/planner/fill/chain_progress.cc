#include "core/planner/fill/chain_progress.h"

namespace dpipe {

ChainProgress::ChainProgress(const FrozenWork& work, int chain, int num_units, int max_batch)
    : chain_(&work.chains[chain]),
      index_(chain),
      num_units_(num_units),
      block_(max_batch > 0 ? std::min(max_batch, num_units) : num_units),
      overhead_ns_(work.instruction_overhead_ns) {
  if (num_units > 0) end_ = (num_units + block_ - 1) / block_ * num_steps();
}

// Of a step from here on in one go with those before it.
Nanos ChainProgress::StepTime(int step) const {
  const int left = BlockUnits(step) - (step == step_ ? done_units_ : 0);
  const bool starts_instruction = step % num_steps() == 0 || step == step_ ||
                                  chain_->steps[step % num_steps()].new_instruction ||
                                  (step == step_ + 1 && done_units_ > 0);
  return Times(step)[left] + (starts_instruction ? overhead_ns_ : 0);
}

std::vector<Nanos> ChainProgress::FullBatchTimes(Nanos limit) const {
  std::vector<Nanos> times = {0};
  for (int step = step_; step < end_; ++step) {
    const Nanos ns = StepTime(step);
    if (times.back() + ns > limit) break;
    times.push_back(times.back() + ns);
  }
  return times;
}

Nanos ChainProgress::RestTime() const {
  Nanos sum = 0;
  for (int step = step_; step < end_; ++step) sum += StepTime(step);
  return sum;
}

// Steps of one block, on units of it.
void ChainProgress::Place(int step_begin, int step_end, int unit_begin, int unit_end, int gap,
                          std::vector<Placement>& out) const {
  const int first_step = step_begin / num_steps() * num_steps();
  const int first_unit = BlockBegin(step_begin);
  out.push_back({gap, index_, step_begin - first_step, step_end - first_step,
                 first_unit + unit_begin, first_unit + unit_end});
}

void ChainProgress::Advance(int count, int gap, std::vector<Placement>& out) {
  if (count > 0 && done_units_ > 0) {
    Place(step_, step_ + 1, done_units_, BlockUnits(step_), gap, out);
    done_units_ = 0;
    ++step_;
    --count;
  }
  while (count > 0) {
    const int of_block = std::min(count, num_steps() - step_ % num_steps());
    Place(step_, step_ + of_block, 0, BlockUnits(step_), gap, out);
    step_ += of_block;
    count -= of_block;
  }
}

int ChainProgress::PartialUnits(Nanos room, double worth) const {
  if (done()) return 0;
  const std::vector<Nanos>& ns = Times(step_);
  const int left = BlockUnits(step_) - done_units_;
  int units = left - 1;
  while (units > 0 && ns[units] + overhead_ns_ > room) --units;
  if (units == 0) return 0;
  const Nanos saved_later = ns[left] - ns[left - units];
  const double worth_ns = worth * static_cast<double>(ns[units] + overhead_ns_);
  return static_cast<double>(saved_later) >= worth_ns ? units : 0;
}

void ChainProgress::AdvancePartially(int units, int gap, std::vector<Placement>& out) {
  Place(step_, step_ + 1, done_units_, done_units_ + units, gap, out);
  done_units_ += units;
}

}  // namespace dpipe
