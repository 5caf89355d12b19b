// Findings about samples that are not errors, counted while loading and reported at the end.
#ifndef DPIPE_DATA_CAPTIONS_SAMPLE_FINDINGS_H_
#define DPIPE_DATA_CAPTIONS_SAMPLE_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text/show.h"

namespace dpipe {

// An unlimited number of names for a message: the first few, and the total count.
class CountedNames {
 public:
  void Add(absl::string_view name) {
    ++count_;
    if (first_.size() < kMaxShownNames) first_.push_back(ShowText(name, kMaxNameBytes));
  }

  int64_t count() const { return count_; }

  // Returns "a, b, c, d, e and 12 more".
  std::string ToString() const {
    const int64_t num_others = count_ - static_cast<int64_t>(first_.size());
    const std::string shown = ShowNames(first_);
    return num_others == 0 ? shown : absl::StrCat(shown, " and ", num_others, " more");
  }

 private:
  static constexpr size_t kMaxNameBytes = 60;  // five of them fit into a line

  int64_t count_ = 0;
  std::vector<std::string> first_;
};

enum class SampleFinding {
  kTransparent,  // transparent pixels became white
  kNotUtf8,      // bytes of a caption that are not UTF-8 became U+FFFD
};
constexpr int kNumSampleFindings = 2;

// Returns "2 images have transparent pixels, composited on white: a.png, b.png".
std::string DescribeFinding(SampleFinding finding, const CountedNames& names);

// Thread-safe. Uses one bit per sample and finding.
class SampleFindings {
 public:
  // Records that sample `index` has the finding. May be called repeatedly.
  void Add(SampleFinding finding, int32_t index);

  // Returns DescribeFinding of each finding that occurred, with its samples by index.
  std::vector<std::string> Describe(const std::function<std::string(int32_t)>& name_of) const;

 private:
  mutable std::mutex mutex_;
  std::vector<bool> found_[kNumSampleFindings];  // by index
};

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTIONS_SAMPLE_FINDINGS_H_
