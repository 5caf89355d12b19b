// Names the field at a position of a textproto.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_TEXT_PLACE_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_TEXT_PLACE_H_

#include <string>

#include "google/protobuf/descriptor.h"

namespace dpipe {

// Returns the path of the field that contains a position, such as "components[1].layers[3].kind";
// "" between fields at the top level. `line` and `column` count from 0 as in protobuf's parser: a
// tab ends at a multiple of 8. `text` is a textproto of `type`, well-formed up to the position.
// Time O(position).
std::string FieldAt(const std::string& text, int line, int column,
                    const google::protobuf::Descriptor& type);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_TEXT_PLACE_H_
