// A fold of a page, <details>, whose inside is compressed until a reader opens it.
//
// Timelines are long and alike: gzip in base64 leaves about a tenth of them. The page's script
// (html_assets.h) unpacks a fold when it is opened, so that what nobody looks at is not laid out
// either; without scripts the fold says that it needs them.
#ifndef DPIPE_CORE_REPORT_PACKED_FOLD_H_
#define DPIPE_CORE_REPORT_PACKED_FOLD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::report {

// `summary` is text; `html` is markup without scripts. Deterministic.
std::string PackedFold(const std::string& summary, const std::string& html);

// `page` with the insides of all folds in their places, as after a reader has opened them.
// InvalidArgument where one is damaged.
absl::StatusOr<std::string> UnpackFolds(absl::string_view page);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PACKED_FOLD_H_
