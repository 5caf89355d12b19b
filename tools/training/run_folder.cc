#include "tools/training/run_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/text/shell_quote.h"
#include "core/train/training_loop.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

bool HasEntryOfRun(const std::string& out) {
  const RunFolder run(out);
  for (const std::string& path :
       {run.model(), run.model() + ".partial", run.best(), run.best() + ".partial",
        run.checkpoints(), run.samples(), run.tensorboard(), run.bad_batches(), run.log(),
        run.mllog(), run.config(), run.profile(), run.cluster(), run.quarantine(),
        run.image_sizes(), absl::StrCat(out, "/", kStopFile),
        absl::StrCat(out, "/", kSaveNowFile)}) {
    if (Exists(path)) return true;
  }
  return false;
}

// Returns "mv A B && ...", which moves the parts of an earlier version's run into one folder; empty
// if `out` is no such run.
std::string CommandsToMove(const std::string& out) {
  const bool is_model = Exists(out + "/training.json");
  if (!is_model && !Exists(out + ".checkpoints")) return "";
  const std::string folder = out + ".moved";
  const RunFolder run(folder);
  std::string commands = ShellCommand({"mkdir", folder});
  const auto move = [&commands](const std::string& from, const std::string& to) {
    if (Exists(from)) absl::StrAppend(&commands, " && ", ShellCommand({"mv", from, to}));
  };
  if (is_model) move(out, run.model());
  move(out + ".best", run.best());
  move(out + ".checkpoints", run.checkpoints());
  move(out + ".samples", run.samples());
  move(out + ".tensorboard", run.tensorboard());
  move(out + ".bad_batches", run.bad_batches());
  move(out + ".log.jsonl", run.log());
  move(out + ".mllog", run.mllog());
  move(out + ".config.textproto", run.config());
  move(out + ".profile.textproto", run.profile());
  move(out + ".cluster.textproto", run.cluster());
  move(out + ".quarantine", run.quarantine());
  move(out + ".image_sizes", run.image_sizes());
  return absl::StrCat(commands, " && ", ShellCommand({"mv", folder, out}));
}

}  // namespace

absl::Status CheckIsRunFolder(const std::string& out) {
  const std::string commands = CommandsToMove(out);
  if (!commands.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(out,
                     " holds a run of an earlier version, whose parts lie beside its model; a run "
                     "now has one folder. Choose another --out, or move them:\n  ",
                     commands));
  }
  std::error_code error;
  if (!Exists(out)) return absl::OkStatus();
  if (!fs::is_directory(out, error)) {
    return absl::FailedPreconditionError(absl::StrCat(out, " exists but is not a folder"));
  }
  if (fs::is_empty(out, error) || HasEntryOfRun(out)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      out, " exists but was not made by training: choose another --out, or remove it"));
}

}  // namespace dpipe::tools
