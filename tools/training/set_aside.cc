#include "tools/training/set_aside.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/files/file.h"
#include "core/base/text/shell_quote.h"
#include "tools/training/run_folder.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;

struct Renaming {
  std::string from, to;
};

// Checkpoints are not renamed as a whole, because this process holds their folder.
std::vector<Renaming> RenamingsTo(const std::string& out, const std::string& log_path,
                                  const std::string& ending) {
  const RunFolder run(out), aside(out + ending);
  std::vector<Renaming> all;
  for (const auto& place :
       {&RunFolder::model, &RunFolder::best, &RunFolder::samples, &RunFolder::tensorboard,
        &RunFolder::bad_batches, &RunFolder::log, &RunFolder::mllog, &RunFolder::config,
        &RunFolder::profile, &RunFolder::cluster}) {
    all.push_back({(run.*place)(), (aside.*place)()});
  }
  if (log_path != run.log()) all.push_back({log_path, log_path + ending});
  return all;
}

// Empty folders are not worth keeping, and special files such as /dev/null are not logs.
bool HasContent(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return !fs::is_empty(path, error);
  return fs::is_regular_file(path, error);
}

bool IsFree(const std::string& out, const std::string& log_path, const std::string& ending) {
  std::error_code error;
  return !fs::exists(fs::symlink_status(out + ending, error)) &&
         !fs::exists(fs::symlink_status(log_path + ending, error));
}

// If `folder` is on another file system, checkpoints stay in their folder under other names.
absl::Status SetCheckpointsAside(const std::string& folder, CheckpointFolder* checkpoints,
                                 RunAside* aside) {
  const auto moved = checkpoints->MoveAllTo(folder);
  if (moved.ok()) {
    aside->has_checkpoints = *moved > 0;
    return absl::OkStatus();
  }
  std::error_code error;
  fs::remove(folder, error);  // it is empty
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> renamed, checkpoints->SetAsideAfter(-1));
  aside->paths.insert(aside->paths.end(), renamed.begin(), renamed.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunAside> SetRunAside(const std::string& out, const std::string& log_path,
                                     CheckpointFolder* checkpoints) {
  std::string ending = ".aside";
  for (int i = 2; !IsFree(out, log_path, ending); ++i) ending = absl::StrCat(".aside", i);
  RunAside aside;
  aside.out = out + ending;
  DPIPE_RETURN_IF_ERROR(MakeFolder(aside.out));
  for (const Renaming& renaming : RenamingsTo(out, log_path, ending)) {
    if (!HasContent(renaming.from)) continue;
    std::error_code error;
    fs::rename(renaming.from, renaming.to, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("the run in ", out, " cannot be set aside: cannot rename ", renaming.from,
                       " to ", renaming.to, ": ", error.message(), "; choose another --out"));
    }
    if (renaming.from == log_path && log_path != RunFolder(out).log()) {
      aside.paths.push_back(renaming.to);
    }
  }
  // Checkpoints move last: while they are there, a new run does not replace the unfinished one.
  DPIPE_RETURN_IF_ERROR(
      SetCheckpointsAside(RunFolder(aside.out).checkpoints(), checkpoints, &aside));
  std::error_code error;
  fs::remove(aside.out, error);  // if it is empty
  if (fs::exists(aside.out, error)) aside.paths.insert(aside.paths.begin(), aside.out);
  aside.bytes = BytesIn(aside.paths);
  return aside;
}

std::vector<std::string> PlacesOfRun(const std::string& out, const std::string& log_path) {
  std::vector<std::string> places;
  for (const Renaming& renaming : RenamingsTo(out, log_path, /*ending=*/"")) {
    places.push_back(renaming.from);
  }
  places.push_back(RunFolder(out).checkpoints());
  return places;
}

absl::StatusOr<std::vector<std::string>> PathsOfRun(const std::string& out,
                                                    const std::string& log_path,
                                                    const CheckpointFolder& checkpoints) {
  std::vector<std::string> paths;
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, checkpoints.Steps());
  bool in_folder = !steps.empty();
  for (const Renaming& renaming : RenamingsTo(out, log_path, /*ending=*/"")) {
    if (!HasContent(renaming.from)) continue;
    if (renaming.from == log_path && log_path != RunFolder(out).log()) {
      paths.push_back(log_path);
    } else {
      in_folder = true;
    }
  }
  if (in_folder) paths.insert(paths.begin(), out);
  return paths;
}

std::string DescribeAside(const std::string& out, const RunAside& aside) {
  std::string text = absl::StrCat("Aside:    the run that was in ", out, " is now ", aside.out,
                                  " (", FormatBytes(aside.bytes), ")");
  if (aside.has_checkpoints) {
    absl::StrAppend(&text, "\n          resume it: ", ShellCommand({"--out=" + aside.out}),
                    " --resume=auto");
  }
  absl::StrAppend(&text, "\n          delete it: rm -r ", ShellCommand(aside.paths));
  return text;
}

int64_t BytesIn(const std::vector<std::string>& paths) {
  int64_t bytes = 0;
  std::error_code error;
  for (const std::string& path : paths) {
    if (fs::is_regular_file(path, error)) bytes += fs::file_size(path, error);
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      std::error_code of_entry;
      if (it->is_regular_file(of_entry)) bytes += it->file_size(of_entry);
    }
  }
  return bytes;
}

}  // namespace dpipe::tools
