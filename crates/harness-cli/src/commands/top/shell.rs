//! The shell around the state: the terminal, the keyboard, and the threads that read and act. Nothing
//! here decides what is shown.

mod events;
mod hands;
mod reader;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use crossterm::event;
use harness::{
    clock::{Clock as _, SystemClock},
    view::ActivityLog,
};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGTERM};

use self::reader::Asked;
use super::{
    draw::draw,
    pane::Wanted,
    state::{Input, Top, Wish},
    theme::Theme,
};
use crate::{environment::Environment, failure::Result, root::StateRoot};

/// The interval at which times on the screen go on.
const TICK: Duration = Duration::from_millis(500);
/// The shortest time between two frames, so that a flood of events costs little.
const FRAME: Duration = Duration::from_millis(50);
/// The interval at which the thread of the keyboard looks whether it has to end.
const KEYS: Duration = Duration::from_millis(200);

/// What the threads share.
#[derive(Clone)]
struct Common {
    env: Environment,
    root: StateRoot,
    activity: Arc<Mutex<ActivityLog>>,
    inputs: Sender<Input>,
    asked: Sender<Asked>,
    /// `true` if the reader knows already that there is activity to show.
    activity_asked: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
}

impl Common {
    /// Asks for a board with the newest activity. Of a flood of events, only the first one since the
    /// last board wakes the reader.
    fn ask_activity(&self) {
        if !self.activity_asked.swap(true, Ordering::AcqRel) {
            _ = self.asked.send(Asked::Activity);
        }
    }

    fn tell(&self, input: Input) {
        // The main loop has ended. So does this thread, soon.
        _ = self.inputs.send(input);
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}

/// Restores the terminal, however the view ends. A panic restores it earlier, by a hook.
struct Screen(DefaultTerminal);

impl Screen {
    fn begin() -> io::Result<Self> {
        Ok(Self(ratatui::try_init()?))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the view until the person leaves it.
pub(super) fn show(env: Environment, root: StateRoot, theme: Theme) -> Result<()> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    let (inputs, received) = mpsc::channel();
    let (asked, questions) = mpsc::channel();
    let (wishes, wanted) = mpsc::channel();
    let activity = Arc::default();
    let activity_asked = Arc::default();
    let ends_too = Arc::clone(&ends);
    let common = Common { env, root, activity, inputs, asked, activity_asked, ends: ends_too };
    let mut screen = Screen::begin()?;
    reader::start(common.clone(), questions)?;
    events::start(common.clone())?;
    hands::start(common.clone(), wanted)?;
    let keys = common.clone();
    thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&keys))?;
    let top = Top::new(theme, SystemClock.now());
    let shown = run(&mut screen.0, top, &received, &common, &wishes);
    ends.store(true, Ordering::Relaxed);
    drop(screen);
    Ok(shown?)
}

fn run(
    terminal: &mut DefaultTerminal,
    mut top: Top,
    received: &Receiver<Input>,
    common: &Common,
    wishes: &Sender<Wish>,
) -> io::Result<()> {
    let mut asked = Wanted::default();
    loop {
        terminal.draw(|frame| draw(&top, frame))?;
        let drawn = Instant::now();
        let mut next = received.recv_timeout(TICK);
        loop {
            match next {
                Ok(input) => {
                    for wish in top.update(input) {
                        match wish {
                            Wish::Quit => return Ok(()),
                            other => _ = wishes.send(other),
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            next = received.recv_timeout(FRAME.saturating_sub(drawn.elapsed()));
        }
        if common.ends() {
            return Ok(());
        }
        _ = top.update(Input::Tick(SystemClock.now()));
        let wanted = top.wanted();
        if wanted != asked {
            asked = wanted.clone();
            _ = common.asked.send(Asked::Detail(wanted));
        }
    }
}

/// Passes keys on. A changed size of the terminal only needs a new frame.
fn read_keys(common: &Common) {
    while !common.ends() {
        match event::poll(KEYS) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        match event::read() {
            Ok(event::Event::Key(key)) if key.kind != event::KeyEventKind::Release => {
                common.tell(Input::Key(key));
            }
            Ok(event::Event::Resize(..)) => common.tell(Input::Tick(SystemClock.now())),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
