#include "data/order/held_out.h"

#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/fingerprint.h"

namespace dpipe {
namespace {

// FNV-1a, whose high bits are poor for short texts, followed by the finalizer of MurmurHash3 to
// spread every bit over all others.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

// Makes paths comparable by resolving links and "..".
class CanonicalPaths {
 public:
  std::string Of(const std::string& path) {
    const size_t base = path.rfind('/') + 1;  // 0 if there is no slash
    const std::string folder = path.substr(0, base);
    const auto [place, is_new] = folders_.emplace(folder, "");
    if (is_new) {
      std::error_code error;
      place->second = std::filesystem::weakly_canonical(folder.empty() ? "." : folder, error) / "";
      if (error) place->second = folder;
    }
    return place->second + path.substr(base);
  }

 private:
  std::unordered_map<std::string, std::string> folders_;  // by name as written
};

}  // namespace

std::string SampleSubset::fingerprint() const {
  Fingerprint fingerprint;
  fingerprint.Add(source_->fingerprint());
  for (const int32_t index : indices_) fingerprint.AddNumber(index);
  return fingerprint.ToString();
}

absl::Status CheckNothingShared(const SampleSource& training, const SampleSource& held_out) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--evaluation.data=", held_out.name(), " is not held out of --data=", training.name(), ": ",
        what,
        "; choose other pictures for --evaluation.data, or hold out a part of --data with "
        "--evaluation.share"));
  };
  CanonicalPaths paths;
  std::unordered_set<std::string> trained_on;
  for (int32_t i = 0; i < training.size(); ++i) trained_on.insert(paths.Of(training.image_path(i)));
  int32_t num_shared = 0, first = 0;
  for (int32_t i = held_out.size() - 1; i >= 0; --i) {
    if (trained_on.count(paths.Of(held_out.image_path(i))) == 0) continue;
    ++num_shared;
    first = i;
  }
  if (num_shared > 0) {
    return error(absl::StrCat(num_shared, " of its ", held_out.size(),
                              " samples are used for training; the first is ",
                              held_out.image_path(first)));
  }
  if (training.fingerprint() != held_out.fingerprint()) return absl::OkStatus();
  return error(absl::StrCat("both have the same ", held_out.size(),
                            " samples, judging by their names, sizes and captions"));
}

double HeldOutRank(const SampleSource& source, int32_t index) {
  return static_cast<double>(Hash(RelativePath(source, index)) >> 11) * 0x1p-53;
}

absl::StatusOr<DividedSource> HoldOut(std::unique_ptr<SampleSource> source, double share) {
  if (!(share > 0 && share < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the held-out share is ", share, "; it must be between 0 and 1"));
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
