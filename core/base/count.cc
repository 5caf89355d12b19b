#include "core/base/count.h"

#include "absl/strings/str_cat.h"

namespace dpipe {

std::string Count(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace dpipe
