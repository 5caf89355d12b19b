// The files by which a person or a scheduler tells a run something (see core/train/signal_files.h):
// beside its checkpoints, or in the model's folder as long as that is not replaced.
#ifndef DPIPE_TOOLS_RUN_SIGNALS_H_
#define DPIPE_TOOLS_RUN_SIGNALS_H_

#include <functional>
#include <string>

#include "tools/training_options.h"

namespace dpipe::tools {

// Whether there is one of that name in either place; they are removed.
bool TakeRunSignal(const TrainerOptions& options, const char* name);

// Removes all, which were for an earlier run, or came too late for this one; says so. Once the
// checkpoints' folder belongs to this run, and at its end.
void DropRunSignals(const TrainerOptions& options,
                    const std::function<void(const std::string& line)>& say);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_SIGNALS_H_
