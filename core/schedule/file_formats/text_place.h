// Where in a textproto something stands.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_TEXT_PLACE_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_TEXT_PLACE_H_

#include <string>

#include "google/protobuf/descriptor.h"

namespace dpipe {

// The field that `text` is in the middle of at a place, "components[1].layers[3].kind"; "" at the
// top level between fields. `line` and `column` count from 0 as protobuf's parser does (a tab ends
// at a multiple of 8). `text` is a textproto of `type`, well-formed up to there. O(place).
std::string FieldAt(const std::string& text, int line, int column,
                    const google::protobuf::Descriptor& type);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_TEXT_PLACE_H_
