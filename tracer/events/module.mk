LIBS += libevents
libevents_SRCS := tracer/events/events.c
