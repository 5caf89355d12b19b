#include "tools/run_control/run_signals.h"

#include "absl/strings/str_cat.h"
#include "core/train/training_loop.h"

namespace dpipe::tools {

bool TakeRunSignal(const TrainerOptions& options, const char* name) {
  const bool in_model = TakeSignalFile(options.out, name);
  return TakeSignalFile(options.checkpoints.folder, name) || in_model;
}

void DropRunSignals(const TrainerOptions& options,
                    const std::function<void(const std::string& line)>& say) {
  for (const char* name : {kStopFile, kSaveNowFile}) {
    if (!TakeRunSignal(options, name)) continue;
    say(absl::StrCat("Note:     removed the file ", name, ", which no longer applies"));
  }
}

}  // namespace dpipe::tools
