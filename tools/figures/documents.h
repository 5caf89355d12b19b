// The documents whose figures come from raw files.
#ifndef DPIPE_TOOLS_FIGURES_DOCUMENTS_H_
#define DPIPE_TOOLS_FIGURES_DOCUMENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Returns the Markdown files of the repository in the folder `root` that may have figures, sorted
// and relative to `root`: README.md, and those below docs and bench/results. Returns NotFound if
// there is no README.md, because `root` is then another folder.
absl::StatusOr<std::vector<std::string>> FindDocuments(const std::string& root);

// Returns "line 12: 'old', computed: 'new'" for the first line that differs; "" if none does.
std::string DifferingLine(absl::string_view text, absl::string_view computed);

// Returns "line 12: 1.5 is not computed from a raw file" for the first decimal number that stands
// outside of figures (tools/figures/figures.h), comments, code and links' targets; "" if there is
// none. Versions are not figures: v2.1, 580.159.04, and others in code spans.
std::string UntracedFigure(absl::string_view markdown);

// Returns the number of words that a reader sees: separated by blanks, without comments, with at
// least one letter or digit.
int CountWords(absl::string_view markdown);

}  // namespace dpipe

#endif  // DPIPE_TOOLS_FIGURES_DOCUMENTS_H_
