#include "data/order/small_images.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/text/show.h"
#include "data/order/held_out.h"

namespace dpipe {
namespace {

// Limits a line to 300 characters.
constexpr size_t kMaxNames = 3, kMaxNameBytes = 40;

}  // namespace

absl::StatusOr<FilteredSource> FilterSmallImages(std::unique_ptr<SampleSource> source, int min_side,
                                                 ImageSizes* sizes) {
  const std::vector<absl::StatusOr<ImageSize>> found = sizes->Read(*source);
  std::vector<int32_t> kept;
  std::vector<std::string> small;
  for (int32_t i = 0; i < source->size(); ++i) {
    if (absl::IsUnavailable(found[i].status())) return found[i].status();
    if (!found[i].ok() || std::min(found[i]->width, found[i]->height) >= min_side) {
      kept.push_back(i);
    } else {
      small.push_back(absl::StrCat(ShowText(RelativePath(*source, i), kMaxNameBytes), " of ",
                                   found[i]->width, " x ", found[i]->height));
    }
  }
  if (small.empty()) return FilteredSource{std::move(source), ""};
  const std::string few = absl::StrCat(
      small.size(), " of the ", source->size(), " images ", small.size() == 1 ? "has" : "have",
      " a side below --data.min_side=", min_side, ": ", ShowNames(small, kMaxNames));
  if (kept.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data set ", source->name(), ": ", few));
  }
  FilteredSource filtered;
  filtered.source = std::make_unique<SampleSubset>(std::move(source), std::move(kept));
  filtered.note = absl::StrCat(few, "; left out");
  return filtered;
}

}  // namespace dpipe
