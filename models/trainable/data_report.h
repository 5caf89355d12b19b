// What a person should know of the data before training begins, in a short paragraph.
#ifndef DPIPE_MODELS_TRAINABLE_DATA_REPORT_H_
#define DPIPE_MODELS_TRAINABLE_DATA_REPORT_H_

#include <string>
#include <vector>

#include "data/loader.h"
#include "models/tokenizer/clip_tokenizer.h"

namespace dpipe::models {

// So many samples at most are looked at where that takes reading: their headers, unless the loader
// has read all of them, and their captions. They are spread evenly over the data set.
inline constexpr int kMaxHeadersRead = 1000;
inline constexpr int kMaxCaptionsRead = 10000;

// Lines, without their last end of line:
//   - how many of the images looked at are cropped and enlarged, and which one most;
//   - how many of the captions looked at the tokenizer cuts, and the longest; without a tokenizer
//     (null) nothing of that;
//   - with several sizes a table of them: the samples, the share of steps, the cropped, the share
//     of their area that is cut off on average, the enlarged;
//   - how many samples are skipped so far, with the first, and SampleSource::findings.
std::vector<std::string> DescribeSamples(const DataLoader& loader, const ClipTokenizer* tokenizer);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_DATA_REPORT_H_
