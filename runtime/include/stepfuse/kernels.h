// The former name of a part of <stepfuse/stepfuse.h>, which has all of the C API.
#pragma once
#include <stepfuse/stepfuse.h>
