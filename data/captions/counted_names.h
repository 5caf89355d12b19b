// An unlimited number of names for a message: the first few, and the total count.
#ifndef DPIPE_DATA_CAPTIONS_COUNTED_NAMES_H_
#define DPIPE_DATA_CAPTIONS_COUNTED_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text/show.h"

namespace dpipe {

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

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTIONS_COUNTED_NAMES_H_
