// Recomputes the figures of documents from their raw files, and rewrites the documents that
// differ.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "gflags/gflags.h"
#include "tools/figures/documents.h"
#include "tools/figures/figures.h"

DEFINE_string(root, ".", "folder of the repository; relative to the workspace");
DEFINE_bool(check, false, "write nothing, and fail if a document differs");

namespace dpipe {
namespace {

constexpr char kUsage[] =
    "Recomputes the figures of README.md, docs/ and bench/results from their raw files, and\n"
    "rewrites the documents that differ. tools/figures/figures.h says how figures are marked.\n\n"
    "  bazel run //tools/figures:update\n"
    "  bazel run //tools/figures:update -- --check\n";

absl::Status Main() {
  const std::string root = std::filesystem::path(OutputPath(FLAGS_root)).lexically_normal();
  Figures figures(root);
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> documents, FindDocuments(root));
  int num_changed = 0;
  for (const std::string& name : documents) {
    const std::string path = absl::StrCat(root, "/", name);
    DPIPE_ASSIGN_OR_RETURN(const std::string before, ReadFile(path));
    const absl::StatusOr<std::string> after = figures.Update(before);
    if (!after.ok()) {
      return absl::Status(after.status().code(),
                          absl::StrCat(name, ", ", after.status().message()));
    }
    if (*after == before) continue;
    ++num_changed;
    std::printf("%s: %s\n", name.c_str(), DifferingLine(before, *after).c_str());
    if (!FLAGS_check) DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, *after));
  }
  std::printf("%d of %d documents %s\n", num_changed, static_cast<int>(documents.size()),
              FLAGS_check ? "differ" : "rewritten");
  if (!FLAGS_check || num_changed == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "figures differ from their raw files; bazel run //tools/figures:update corrects them");
}

}  // namespace
}  // namespace dpipe

int main(int argc, char** argv) {
  return dpipe::RunCommand(argc, argv, {"update", dpipe::kUsage}, dpipe::Main);
}
