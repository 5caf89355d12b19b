// A fold of a page, <details>, whose content is compressed until a reader opens it.
//
// Timelines are long and repetitive: gzip in base64 leaves about a tenth of their size. The page's
// script (html_assets.h) unpacks a fold when it is opened, so that unopened folds need no layout
// either. Without scripts the fold says that it needs them.
#ifndef DPIPE_CORE_REPORT_PAGE_PACKED_FOLD_H_
#define DPIPE_CORE_REPORT_PAGE_PACKED_FOLD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::report {

// Packs a fold. `summary` is plain text; `html` is markup without scripts. Deterministic.
std::string PackedFold(const std::string& summary, const std::string& html);

// Returns `page` with the contents of all folds in place, as if a reader had opened them. Returns
// InvalidArgument if a fold is damaged.
absl::StatusOr<std::string> UnpackFolds(absl::string_view page);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_PACKED_FOLD_H_
