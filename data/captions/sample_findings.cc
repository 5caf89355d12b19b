#include "data/captions/sample_findings.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/base/count.h"

namespace dpipe {

std::string DescribeFinding(SampleFinding finding, const CountedNames& names) {
  const int64_t count = names.count();
  const std::string what =
      finding == SampleFinding::kTransparent
          ? absl::StrCat(Count(count, "image"), count == 1 ? " has" : " have",
                         " transparent pixels, composited on white")
          : absl::StrCat(Count(count, "caption"), count == 1 ? " is" : " are",
                         " not UTF-8, and invalid bytes were replaced by U+FFFD; save as UTF-8");
  return absl::StrCat(what, ": ", names.ToString());
}

void SampleFindings::Add(SampleFinding finding, int32_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<bool>& found = found_[static_cast<int>(finding)];
  if (found.size() <= static_cast<size_t>(index)) found.resize(index + 1, false);
  found[index] = true;
}

std::vector<std::string> SampleFindings::Describe(
    const std::function<std::string(int32_t)>& name_of) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> lines;
  for (int finding = 0; finding < kNumSampleFindings; ++finding) {
    CountedNames names;
    for (size_t i = 0; i < found_[finding].size(); ++i) {
      if (found_[finding][i]) names.Add(name_of(static_cast<int32_t>(i)));
    }
    if (names.count() > 0) lines.push_back(DescribeFinding(SampleFinding(finding), names));
  }
  return lines;
}

}  // namespace dpipe
