#include "core/planner/fill/greedy/chain_progress.h"

namespace dpipe {

ChainBatches::ChainBatches(const FrozenWork& work, int chain, int num_units, int max_batch)
    : chain_(&work.chains[chain]),
      index_(chain),
      num_steps_(static_cast<int>(chain_->steps.size())),
      num_units_(num_units),
      block_(max_batch > 0 ? std::min(max_batch, num_units) : num_units),
      overhead_ns_(work.instruction_overhead_ns) {
  sums_ = {0};
  first_sums_ = sums_.data();
  if (num_units == 0) return;
  const int num_blocks = (num_units + block_ - 1) / block_;
  end_ = num_blocks * num_steps();
  sums_ = Sums(block_);
  first_sums_ = sums_.data();
  const int last_units = num_units - (num_blocks - 1) * block_;
  if (last_units < block_) last_sums_ = Sums(last_units);
}

std::vector<Nanos> ChainBatches::Sums(int units) const {
  std::vector<Nanos> sums = {0};
  sums.reserve(num_steps() + 1);
  for (int step = 0; step < num_steps(); ++step) {
    sums.push_back(sums.back() + chain_->step_ns[step][units] +
                   (StartsInstruction(step) ? overhead_ns_ : 0));
  }
  return sums;
}

Nanos ChainProgress::PartialBatchChange(int count) const {
  const ChainBatches& b = *batches_;
  const int units = b.BlockUnits(step_);
  Nanos ns = b.Times(step_)[units - done_units_] - b.Times(step_)[units];
  if (count > 1 && !b.StartsInstruction(step_ + 1)) ns += b.overhead_ns();
  return ns;
}

int ChainProgress::FullBatchSteps(Nanos limit) const {
  int fits = 0, too_many = batches_->end() - step_ + 1;
  while (too_many - fits > 1) {
    const int middle = fits + (too_many - fits) / 2;
    (FullBatchTime(middle) <= limit ? fits : too_many) = middle;
  }
  return fits;
}

// Appends a placement of steps of one block. Units are relative to the block.
void ChainProgress::Place(int step_begin, int step_end, int unit_begin, int unit_end, int gap,
                          std::vector<Placement>* out) const {
  if (out == nullptr) return;
  const int num_steps = batches_->num_steps();
  const int first_step = step_begin / num_steps * num_steps;
  const int first_unit = batches_->BlockBegin(step_begin);
  out->push_back({gap, batches_->chain(), step_begin - first_step, step_end - first_step,
                  first_unit + unit_begin, first_unit + unit_end});
}

void ChainProgress::Advance(int count, int gap, std::vector<Placement>* out) {
  if (out == nullptr) {
    step_ += count;
    if (count > 0) done_units_ = 0;
    return;
  }
  if (count > 0 && done_units_ > 0) {
    Place(step_, step_ + 1, done_units_, batches_->BlockUnits(step_), gap, out);
    done_units_ = 0;
    ++step_;
    --count;
  }
  while (count > 0) {
    const int num_steps = batches_->num_steps();
    const int of_block = std::min(count, num_steps - step_ % num_steps);
    Place(step_, step_ + of_block, 0, batches_->BlockUnits(step_), gap, out);
    step_ += of_block;
    count -= of_block;
  }
}

int ChainProgress::PartialUnits(Nanos room, double worth) const {
  if (done()) return 0;
  const std::vector<Nanos>& ns = batches_->Times(step_);
  const int left = batches_->BlockUnits(step_) - done_units_;
  int units = left - 1;
  while (units > 0 && ns[units] + batches_->overhead_ns() > room) --units;
  if (units == 0) return 0;
  const Nanos saved_later = ns[left] - ns[left - units];
  const double worth_ns = worth * static_cast<double>(ns[units] + batches_->overhead_ns());
  return static_cast<double>(saved_later) >= worth_ns ? units : 0;
}

void ChainProgress::AdvancePartially(int units, int gap, std::vector<Placement>* out) {
  Place(step_, step_ + 1, done_units_, done_units_ + units, gap, out);
  done_units_ += units;
}

}  // namespace dpipe
