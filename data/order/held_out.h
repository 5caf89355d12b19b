// Samples set aside for evaluation. The choice depends on each file's name alone, so adding files
// or shuffling never moves a sample to the other side.
#ifndef DPIPE_DATA_ORDER_HELD_OUT_H_
#define DPIPE_DATA_ORDER_HELD_OUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/sample_source.h"

namespace dpipe {

// Returns a sample's rank between 0 and 1, a uniform hash of its file name. The name is relative to
// the data set, so that a data set that is moved is divided in the same way.
double HeldOutRank(const SampleSource& source, int32_t index);

// A subset of a source, renumbered in order. Keeps the source alive.
class SampleSubset : public SampleSource {
 public:
  // `indices` must be increasing and not empty.
  SampleSubset(std::shared_ptr<const SampleSource> source, std::vector<int32_t> indices)
      : source_(std::move(source)), indices_(std::move(indices)) {}

  int32_t size() const override { return static_cast<int32_t>(indices_.size()); }
  std::string fingerprint() const override;
  const std::string& name() const override { return source_->name(); }
  std::string image_path(int32_t i) const override { return source_->image_path(indices_[i]); }
  bool has_condition(int32_t i) const override { return source_->has_condition(indices_[i]); }
  std::vector<std::string> findings() const override { return source_->findings(); }
  absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t i) const override {
    return source_->LoadCaptions(indices_[i]);
  }
  absl::StatusOr<Image> LoadImage(int32_t i) const override {
    return source_->LoadImage(indices_[i]);
  }
  absl::StatusOr<ImageSize> LoadImageSize(int32_t i) const override {
    return source_->LoadImageSize(indices_[i]);
  }
  absl::StatusOr<std::string> LoadIdentity(int32_t i) const override {
    return source_->LoadIdentity(indices_[i]);
  }
  absl::StatusOr<Image> LoadCondition(int32_t i) const override {
    return source_->LoadCondition(indices_[i]);
  }

 private:
  const std::shared_ptr<const SampleSource> source_;
  const std::vector<int32_t> indices_;
};

struct DividedSource {
  std::unique_ptr<SampleSource> training;
  std::unique_ptr<SampleSource> held_out;
};

// Holds out the samples whose rank is below `share`. Returns InvalidArgument if the share is not in
// (0, 1) or one side would be empty. The message names the data set, its size and the share.
absl::StatusOr<DividedSource> HoldOut(std::unique_ptr<SampleSource> source, double share);

// Returns InvalidArgument if evaluation samples are also trained on: both sources name the same
// file, by any path, or they are copies with the same samples. The message names both sources and
// the number of shared samples.
absl::Status CheckNothingShared(const SampleSource& training, const SampleSource& held_out);

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_HELD_OUT_H_
