// Findings about samples that are not errors, counted while loading and reported at the end.
#ifndef DPIPE_DATA_CAPTIONS_SAMPLE_FINDINGS_H_
#define DPIPE_DATA_CAPTIONS_SAMPLE_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "data/captions/counted_names.h"

namespace dpipe {

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
