#include "data/held_out.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dpipe {
namespace {

// FNV-1a, whose low bits are good and whose high bits are not for short texts; then the finalizer
// of MurmurHash3, which spreads every bit over all.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

// "/data/cats/7.png" of the folder "/data/cats" is "7.png"; "/data/cats-03.tar: 7.jpg" of the
// shards
// "/data/cats-*.tar" is "cats-03.tar: 7.jpg".
std::string RelativePath(const SampleSource& source, int32_t index) {
  const std::string path = source.image_path(index);
  const std::string& name = source.name();
  const std::string parent = name.substr(0, name.rfind('/') + 1);
  absl::string_view relative = path;
  if (!absl::ConsumePrefix(&relative, absl::StrCat(name, "/"))) {
    absl::ConsumePrefix(&relative, parent);
  }
  return std::string(relative);
}

}  // namespace

double HeldOutRank(const SampleSource& source, int32_t index) {
  return static_cast<double>(Hash(RelativePath(source, index)) >> 11) * 0x1p-53;
}

absl::StatusOr<DividedSource> HoldOut(std::unique_ptr<SampleSource> source, double share) {
  if (!(share > 0 && share < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the held-out share is ", share, ", it must be between 0 and 1"));
  }
  const std::shared_ptr<const SampleSource> shared = std::move(source);
  std::vector<int32_t> training, held_out;
  for (int32_t i = 0; i < shared->size(); ++i) {
    (HeldOutRank(*shared, i) < share ? held_out : training).push_back(i);
  }
  if (training.empty() || held_out.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("holding out a share of ", share, " of the ",
                                                   shared->size(), " samples in ", shared->name(),
                                                   " leaves ", training.size(), " to train on and ",
                                                   held_out.size(), " to evaluate on"));
  }
  DividedSource divided;
  divided.training = std::make_unique<SampleSubset>(shared, std::move(training));
  divided.held_out = std::make_unique<SampleSubset>(shared, std::move(held_out));
  return divided;
}

}  // namespace dpipe
