#include "data/order/buckets.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe {
namespace {

constexpr int kMaxSide = 16384;

}  // namespace

absl::StatusOr<std::vector<ImageSize>> MakeBuckets(const BucketOptions& options) {
  const int step = options.step;
  if (step < 1 || options.base_side < step || options.base_side > kMaxSide ||
      options.base_side % step != 0) {
    return absl::InvalidArgumentError(absl::StrCat("buckets: base side ", options.base_side,
                                                   " is not a multiple of the step ", step,
                                                   ", or not in [step, ", kMaxSide, "]"));
  }
  if (!(options.max_aspect >= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("buckets: max aspect ", options.max_aspect, " is below 1"));
  }
  const int64_t area = int64_t{options.base_side} * options.base_side;
  std::set<std::pair<int, int>> sizes;
  for (int side = step; side <= options.base_side; side += step) {
    const int other = static_cast<int>(std::min<int64_t>(kMaxSide, area / side / step * step));
    if (other > options.max_aspect * side) continue;
    sizes.insert({side, other});
    sizes.insert({other, side});
  }
  std::vector<ImageSize> buckets;
  for (const auto& [width, height] : sizes) buckets.push_back({width, height});
  return buckets;
}

absl::Status CheckSides(ImageSize size, int multiple, const std::string& owner) {
  if (size.width >= 1 && size.height >= 1 && size.width % multiple == 0 &&
      size.height % multiple == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(owner, ": pictures of ", size.width, " x ", size.height,
                   " pixels: both sides must be multiples of ", multiple));
}

int NearestBucket(const std::vector<ImageSize>& buckets, ImageSize image) {
  DPIPE_CHECK(!buckets.empty() && image.width > 0 && image.height > 0);
  const auto aspect = [](ImageSize size) {
    return std::log(static_cast<double>(size.width) / size.height);
  };
  const auto distance = [&](ImageSize size) { return std::abs(aspect(size) - aspect(image)); };
  const auto nearest =
      std::min_element(buckets.begin(), buckets.end(),
                       [&](ImageSize a, ImageSize b) { return distance(a) < distance(b); });
  return static_cast<int>(nearest - buckets.begin());
}

std::vector<int32_t> ChooseBuckets(const std::vector<ImageSize>& buckets,
                                   const std::vector<ImageSize>& images, int min_size) {
  std::vector<int> counts(buckets.size(), 0);
  for (const ImageSize image : images) {
    if (image.width > 0) ++counts[NearestBucket(buckets, image)];
  }
  const int32_t largest =
      static_cast<int32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  std::vector<ImageSize> kept;
  std::vector<int32_t> kept_numbers;
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (counts[b] < min_size && static_cast<int32_t>(b) != largest) continue;
    kept.push_back(buckets[b]);
    kept_numbers.push_back(static_cast<int32_t>(b));
  }
  std::vector<int32_t> chosen;
  for (const ImageSize image : images) {
    chosen.push_back(image.width > 0 ? kept_numbers[NearestBucket(kept, image)] : largest);
  }
  return chosen;
}

BucketedOrder::BucketedOrder(uint64_t seed, const std::vector<int32_t>& bucket_of, int num_buckets,
                             int global_batch)
    : seed_(seed),
      batch_(global_batch),
      num_samples_(static_cast<int64_t>(bucket_of.size())),
      members_(num_buckets) {
  DPIPE_CHECK(!bucket_of.empty());
  DPIPE_CHECK_GT(global_batch, 0);
  for (size_t i = 0; i < bucket_of.size(); ++i) {
    DPIPE_CHECK(bucket_of[i] >= 0 && bucket_of[i] < num_buckets) << "bucket " << bucket_of[i];
    members_[bucket_of[i]].push_back(static_cast<int32_t>(i));
  }
  for (int b = 0; b < num_buckets; ++b) {
    orders_.push_back(members_[b].empty()
                          ? nullptr
                          : std::make_unique<SampleOrder>(seed, bucket_size(b), /*stream=*/b + 1));
  }
}

int64_t BucketedOrder::StepsBefore(int64_t epoch) const {
  int64_t steps = 0;
  for (const auto& members : members_) {
    steps += epoch * static_cast<int64_t>(members.size()) / batch_;
  }
  return steps;
}

int64_t BucketedOrder::FirstStepOf(int bucket) const {
  const int64_t size = bucket_size(bucket);
  if (size == 0) return -1;
  // Its first batch is full in the epoch of its ceil(B / n)-th pass.
  const int64_t epoch = (batch_ + size - 1) / size - 1;
  const Schedule batches = ScheduleOf(epoch);
  const auto first = std::find_if(batches->begin(), batches->end(),
                                  [bucket](const Batch& batch) { return batch.bucket == bucket; });
  DPIPE_CHECK(first != batches->end());
  return StepsBefore(epoch) + (first - batches->begin());
}

int64_t BucketedOrder::StepsToSeeAll() const {
  int64_t epochs = 1;
  for (const auto& members : members_) {
    if (members.empty()) continue;
    const int64_t size = static_cast<int64_t>(members.size());
    const int64_t places = (size + batch_ - 1) / batch_ * batch_;  // whole batches
    epochs = std::max(epochs, (places + size - 1) / size);
  }
  return StepsBefore(epochs);
}

BucketedOrder::Batch BucketedOrder::At(int64_t step) const {
  DPIPE_CHECK_GE(step, 0);
  // The epoch is the last one with StepsBefore(epoch) <= step. Rounding removes less than one step
  // per bucket, so `high` epochs of num_samples_ / batch_ steps contain more than `step`.
  const int64_t num_buckets = static_cast<int64_t>(members_.size());
  int64_t low = 0, high = (step + 1 + num_buckets) * batch_ / num_samples_ + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (StepsBefore(middle) <= step ? low : high) = middle;
  }
  return (*ScheduleOf(low))[step - StepsBefore(low)];
}

int32_t BucketedOrder::SampleOf(const Batch& batch, int place, int32_t skip) const {
  const int64_t size = bucket_size(batch.bucket);
  const int64_t position = batch.number * batch_ + place;
  const int64_t permutation = position / size;
  const int64_t at = permutation * size + (position % size + skip) % size;
  return members_[batch.bucket][orders_[batch.bucket]->At(at)];
}

BucketedOrder::Schedule BucketedOrder::ScheduleOf(int64_t epoch) const {
  return recent_.Get(epoch, [&] { return MakeSchedule(epoch); });
}

std::vector<BucketedOrder::Batch> BucketedOrder::MakeSchedule(int64_t epoch) const {
  std::vector<Batch> batches;
  for (size_t b = 0; b < members_.size(); ++b) {
    const int64_t size = static_cast<int64_t>(members_[b].size());
    for (int64_t k = epoch * size / batch_; k < (epoch + 1) * size / batch_; ++k) {
      batches.push_back({static_cast<int>(b), k});
    }
  }
  RandomStream random(seed_, static_cast<uint64_t>(epoch), /*sample=*/0, RandomPurpose::kShuffle);
  for (size_t i = batches.size(); i > 1; --i) {
    std::swap(batches[i - 1], batches[random.NextBelow(static_cast<uint32_t>(i))]);
  }
  return batches;
}

}  // namespace dpipe
