// What loading samples brings up without being an error: counted by sample, and told at the end.
#ifndef DPIPE_DATA_SAMPLE_FINDINGS_H_
#define DPIPE_DATA_SAMPLE_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "data/counted_names.h"

namespace dpipe {

enum class SampleFinding {
  kTransparent,  // the image has transparent pixels, which became white
  kNotUtf8,      // a caption has bytes that are not UTF-8, which became U+FFFD
};
constexpr int kNumSampleFindings = 2;

// Returns "2 images have transparent pixels, which white shows through: a.png, b.png".
std::string DescribeFinding(SampleFinding finding, const CountedNames& names);

// Thread-safe. One bit per sample and finding.
class SampleFindings {
 public:
  // Notes that `index` has the finding, of which it may be noted any number of times.
  void Add(SampleFinding finding, int32_t index);

  // Returns DescribeFinding of each finding that there was, its samples by index.
  std::vector<std::string> Describe(const std::function<std::string(int32_t)>& name_of) const;

 private:
  mutable std::mutex mutex_;
  std::vector<bool> found_[kNumSampleFindings];  // by index
};

}  // namespace dpipe

#endif  // DPIPE_DATA_SAMPLE_FINDINGS_H_
