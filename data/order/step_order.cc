#include "data/order/step_order.h"

#include "core/base/check.h"

namespace dpipe {

StepOrder::StepOrder(const StepOrderOptions& options, int32_t num_samples,
                     const std::vector<ImageSize>& images)
    : options_(options), order_(OrderSeed(options.seed, options.first_step), num_samples) {
  if (options.buckets.empty()) return;
  DPIPE_CHECK_EQ(static_cast<int32_t>(images.size()), num_samples);
  bucket_of_ = ChooseBuckets(options.buckets, images, options.global_batch);
  bucketed_ = std::make_unique<const BucketedOrder>(
      OrderSeed(options.seed, options.first_step), bucket_of_,
      static_cast<int>(options.buckets.size()), options.global_batch);
}

BucketedOrder::Batch StepOrder::BatchOf(int64_t step) const {
  return bucketed_->At(step - options_.first_step);
}

int32_t StepOrder::SampleAt(int64_t step, int place, int32_t skip) const {
  DPIPE_CHECK_GE(step, options_.first_step);
  if (bucketed_ != nullptr) return bucketed_->SampleOf(BatchOf(step), place, skip);
  const int64_t position = (step - options_.first_step) * options_.global_batch + place;
  const int64_t size = order_.size();
  return order_.At(position / size * size + (position % size + skip) % size);
}

int32_t StepOrder::NumCandidates(int64_t step) const {
  return bucketed_ == nullptr ? order_.size() : bucketed_->bucket_size(BatchOf(step).bucket);
}

ImageSize StepOrder::SizeOf(int64_t step) const {
  return bucketed_ == nullptr ? options_.size : options_.buckets[BatchOf(step).bucket];
}

ImageSize StepOrder::SizeOfSample(int32_t index) const {
  return bucketed_ == nullptr ? options_.size : options_.buckets[bucket_of_[index]];
}

std::vector<StepOrder::SizeInUse> StepOrder::SizesInUse() const {
  if (bucketed_ == nullptr) return {{options_.size, options_.first_step, order_.size()}};
  std::vector<SizeInUse> sizes;
  for (size_t b = 0; b < options_.buckets.size(); ++b) {
    const int bucket = static_cast<int>(b);
    const int64_t first = bucketed_->FirstStepOf(bucket);
    if (first < 0) continue;
    sizes.push_back(
        {options_.buckets[b], options_.first_step + first, bucketed_->bucket_size(bucket)});
  }
  return sizes;
}

int64_t StepOrder::StepsToSeeAll() const {
  if (bucketed_ != nullptr) return bucketed_->StepsToSeeAll();
  const int64_t batch = options_.global_batch;
  return (int64_t{order_.size()} + batch - 1) / batch;
}

}  // namespace dpipe
